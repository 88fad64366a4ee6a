"""What runs an exported model: each runtime implements `edgespec.model.Model`."""
