"""runners room."""
