"""Two legs as run -> everything observed about them, before any bound."""
