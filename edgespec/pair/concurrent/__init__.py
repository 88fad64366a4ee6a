"""Several texts of one pair."""
