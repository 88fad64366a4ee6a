"""Runtimes for exported models: each implements `edgespec.core.model.Model`."""
