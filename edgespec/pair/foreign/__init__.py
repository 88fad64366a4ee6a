"""Programs of others that a pair brings: what they may do, and what they may print."""
