"""What a run leaves behind: frozen data, strict JSON, atomic files."""
