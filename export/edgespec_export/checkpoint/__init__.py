"""Reading checkpoints: configs, weights, tokenizers and chat templates."""
