"""Products of whole numbers, with ranges of activations from texts."""
