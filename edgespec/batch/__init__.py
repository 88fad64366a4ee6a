"""A file of requests to a file of answers; a run that was killed continues where it stood."""
