"""Named rules: what must hold of a manifest that a schema cannot say."""
