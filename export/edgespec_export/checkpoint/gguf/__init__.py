"""Reading a GGUF file as if it were a Hugging Face folder."""
