"""A pair as an HTTP server that OpenAI clients can talk to; extra `edgespec[server]`."""
