"""Native libraries that are installed beside this package."""
