"""Rotary positions: the frequencies that configs ask for, and the order of the rotated numbers."""
