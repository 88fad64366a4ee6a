"""What an export changes of a checkpoint, where it is asked to."""
