"""What a draft is trained on and judged by."""
