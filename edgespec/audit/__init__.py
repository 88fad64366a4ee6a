"""Whether a program's greedy text depends on what it must not depend on."""
