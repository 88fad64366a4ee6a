"""Parts that model families are made of."""
