"""How the small trained pipeline of ``tests/e2e/accuracy/tiny_digits/model`` was made and is measured.

Not part of the installed package: only ``tools/train_tiny_digits.py`` and ``tools/score_tiny_digits.py`` use it.
"""
