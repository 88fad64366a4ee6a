"""Parts of caches that are kept, and copied into caches again."""
