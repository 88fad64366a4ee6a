"""Pairs by name: where they are kept, and exports of models that are used for the first time."""
