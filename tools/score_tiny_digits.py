"""Measure how many generated digits a separate classifier reads as prompted, beside its accuracy on real digits.

    python tools/score_tiny_digits.py --model tests/e2e/accuracy/tiny_digits/model

takes some fifteen seconds on one CPU core and needs no network.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Parse the command line, measure, and print one JSON object on standard output."""
    # Before diffusers is imported: nothing here may look for a file on a hub.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch  # noqa: PLC0415

    from tiny_digits import score  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a tiny-digits pipeline")
    parser.add_argument("--count", type=int, default=100, help="pictures to generate")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first picture; the others follow")
    parser.add_argument("--guidance", type=float, default=3.0, help="guidance scale; 1 switches guidance off")
    options = parser.parse_args()
    if options.count < 1:
        parser.error("--count must be at least 1")
    if not (options.model / "model_index.json").is_file():
        parser.error(f"{options.model} holds no pipeline (no model_index.json)")

    torch.set_num_threads(1)  # two threads were up to a hundred times slower on a shared two-core machine
    classifier, wanted = score.Classifier(), score.requests(options.count)
    images = score.generate(
        options.model,
        wanted,
        seed=options.seed,
        guidance=options.guidance,
        log=lambda line: print(line, file=sys.stderr, flush=True),
    )
    result = {
        "classifier_on_held_out_digits": classifier.held_out()._asdict(),
        "generated": {"count": options.count, "seed": options.seed, "guidance": options.guidance}
        | score.share(classifier.read(images), wanted)._asdict(),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
