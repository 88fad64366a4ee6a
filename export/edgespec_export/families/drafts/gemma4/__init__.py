"""Gemma 4's assistant, a draft that reads its target's keys and values."""
