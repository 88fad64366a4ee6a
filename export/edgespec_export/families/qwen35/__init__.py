"""Qwen3.5: gated delta rules, and gated attention in every fourth layer."""
