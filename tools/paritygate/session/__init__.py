"""session room."""
