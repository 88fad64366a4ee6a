"""EAGLE-3 heads as others publish them."""
