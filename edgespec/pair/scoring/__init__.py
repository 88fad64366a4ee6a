"""How probable given texts are under the target."""
