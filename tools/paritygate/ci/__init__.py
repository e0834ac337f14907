"""Cases as CI jobs: a neutral step per case variant, the pipelines written from them, and their drift."""
