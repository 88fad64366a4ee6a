"""The JAX reference path: a second implementation of the loop, and the paper's tables."""
