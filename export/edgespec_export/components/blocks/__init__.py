"""The blocks of a layer, and what is in the middle of each."""
