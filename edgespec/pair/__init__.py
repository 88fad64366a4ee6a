"""A target and its draft, loaded: the API that applications embed."""
