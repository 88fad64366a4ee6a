"""The exported folder: graph names, manifest, chat format, checks, files that appear whole."""
