"""The server as one of HTTP: its address, connections, bodies, answers, and who may ask."""
