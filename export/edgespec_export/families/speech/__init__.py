"""Families whose encoder reads sound."""
