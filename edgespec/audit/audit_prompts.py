"""Prompts of an audit: texts of several kinds, that go on for a while."""

from __future__ import annotations

__all__ = ["PROMPTS"]

PROMPTS = (
    "The history of the steam engine begins with",
    "Once upon a time, in a village by the sea, there lived",
    "def quicksort(items):\n    ",
    "A recipe for bread: first",
    "The three most important ideas of physics are",
    "Dear Sir or Madam,\n\nI am writing to",
    "In 1969, the first human beings",
    "1. Open the door.\n2. ",
    "The difference between a virus and a bacterium is",
    "SELECT name, price FROM products WHERE",
    "When the rain stopped, Anna looked out of the window and",
    "The capital of France is Paris. The capital of Italy is",
)
