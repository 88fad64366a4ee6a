"""From sound to a transcript: the rules on a speech model's tokens, windows, segments."""
