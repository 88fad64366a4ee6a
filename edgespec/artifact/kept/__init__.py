"""The exported folders that are kept for a user, without loading any of them."""
