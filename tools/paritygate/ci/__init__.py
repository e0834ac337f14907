"""ci room."""
