"""An OpenAI-compatible image and video server over a local Diffusers pipeline."""
