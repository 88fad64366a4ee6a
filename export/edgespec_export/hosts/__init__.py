"""What an export is made for: what it may contain."""
