"""Training a draft on its target's own outputs: `edgespec distill`. Needs torch and transformers.

A value flows: prompts → outputs.py (what the target writes, and its distributions) → student.py (a smaller
model) → training.py (loss.py, optimizer.py, budget.py) → run.py, which saves a checkpoint.
"""
