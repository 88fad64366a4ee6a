"""Drafts that fill a block of masks with one call: DFlash, DFlash-2 and DSpark."""
