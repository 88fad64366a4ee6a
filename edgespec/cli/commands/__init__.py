"""The commands, one file each; `edgespec.cli.main` loads them when they are called."""
