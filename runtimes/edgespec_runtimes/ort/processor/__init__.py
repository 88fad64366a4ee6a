"""The processor's own provider: its attention, and its memory."""
