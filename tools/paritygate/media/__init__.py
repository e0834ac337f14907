"""Files <-> arrays with a declared layout, digests of trees, and safe paths. Never converts, resizes or guesses."""
