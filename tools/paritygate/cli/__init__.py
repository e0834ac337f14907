"""The ``paritygate`` command: words in, a room's work, text or JSON and an exit code out."""
