"""Number formats of weights, and the Hadamard rotation that int8 needs."""
