"""paritygate: accuracy gates for diffusion serving stacks, from one manifest per case."""

__version__ = "0.1.0"
