"""Versioned frozen references: drafts, promotion, verification, and where a golden is found."""
