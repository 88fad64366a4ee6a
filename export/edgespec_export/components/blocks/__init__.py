"""The blocks of a layer, their mixers and activations."""
