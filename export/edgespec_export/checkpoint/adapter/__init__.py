"""Adapters: small changes of a model, trained on their own (LoRA)."""
