"""Records -> reports. Prints verdicts, never makes them."""
