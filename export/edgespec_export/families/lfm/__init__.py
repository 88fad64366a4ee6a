"""LFM2 and LFM3: gated convolutions, and attention in some layers."""
