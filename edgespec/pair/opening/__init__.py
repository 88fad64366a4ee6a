"""From an exported folder to a pair: its models, what is known about them on this machine."""
