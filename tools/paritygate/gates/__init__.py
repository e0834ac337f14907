"""gates room."""
