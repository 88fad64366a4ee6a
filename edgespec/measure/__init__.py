"""Measurements of a pair on this device: tuning, benchmarks, predictions."""
