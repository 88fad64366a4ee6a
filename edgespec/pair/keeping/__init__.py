"""What is kept of prompts: caches in files, and the turns that a cache can hold."""
