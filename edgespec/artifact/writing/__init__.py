"""How files and streams are written: whole, or not at all."""
