"""Reading checkpoints: configs, weights and chat templates."""
