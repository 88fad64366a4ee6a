"""The JAX reference implementation of speculative decoding, and the paper's tables."""
