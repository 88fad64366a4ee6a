"""What is noted of exported folders that are kept, without loading any of them."""
