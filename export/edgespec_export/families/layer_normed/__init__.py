"""Decoders with layer norms: StableLM, GPT-NeoX, Phi, OPT, BLOOM."""
