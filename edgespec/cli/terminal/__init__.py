"""A conversation at a terminal: what is typed, what is shown, and what is kept."""
