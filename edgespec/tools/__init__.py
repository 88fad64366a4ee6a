"""Functions that a model may call: its chat template, and the calls in its answers."""
