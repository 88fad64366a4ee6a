"""How much to draft: costs, measured or estimated, and the γ that they choose."""
