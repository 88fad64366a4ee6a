"""Target and student models in PyTorch."""
