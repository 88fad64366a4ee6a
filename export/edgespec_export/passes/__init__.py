"""Passes over a finished graph."""
