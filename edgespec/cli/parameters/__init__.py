"""Options of commands about one subject: loading, grammars, the model's own settings."""
