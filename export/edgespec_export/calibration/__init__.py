"""Texts that show which inputs the products of a model have, and the moments of these inputs."""
