"""Several texts in shared calls."""
