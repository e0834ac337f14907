"""media room."""
