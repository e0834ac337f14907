"""Train tiny-digits, the small text-to-image pipeline of this project's own cases, from random weights.

    python tools/train_tiny_digits.py --out build/tiny-digits

takes about 40 minutes on one CPU core with the default steps, which are those of the shipped weights, and needs no
network: the data ships inside scikit-learn. The result loads with ``StableDiffusionPipeline.from_pretrained``. It
follows the recipe of the shipped weights and does not repeat their bits (see ``tiny_digits/train.py``).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def main() -> None:
    """Parse the command line and train."""
    # Before torch and transformers are imported: nothing here may look for a file on a hub.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch  # noqa: PLC0415

    from tiny_digits import train  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory to write the pipeline to")
    parser.add_argument("--vae-steps", type=int, default=train.VAE_STEPS, help="steps of the autoencoder")
    parser.add_argument("--steps", type=int, default=train.STEPS, help="steps of the UNet and the text encoder")
    parser.add_argument("--pool", type=int, default=train.POOL, help="encoded pictures to draw batches from")
    options = parser.parse_args()
    for name in ("vae_steps", "steps", "pool"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if (options.out / "model_index.json").exists():
        parser.error(f"{options.out} already holds a pipeline; choose another directory")

    torch.set_num_threads(1)  # two threads were up to a hundred times slower on a shared two-core machine
    torch.set_flush_denormal(True)
    train.train(
        options.out,
        vae_steps=options.vae_steps,
        steps=options.steps,
        pool=options.pool,
        log=lambda line: print(line, flush=True),
    )


if __name__ == "__main__":
    main()
