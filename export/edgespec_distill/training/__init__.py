"""The training loop: losses, optimizer, time and memory."""
