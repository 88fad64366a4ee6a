"""What runs an exported model: each runtime implements `edgespec.core.model.Model`."""
