"""What is known of well-known models before they are downloaded."""
