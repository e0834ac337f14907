"""manifest room."""
