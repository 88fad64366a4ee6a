"""Objects that propose tokens."""
