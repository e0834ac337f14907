"""Load a pipeline and serve it: ``python -m openai_server --model FOLDER --port 8000``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

#: A request that is still running gets this long when the server is asked to end.
_GRACE_S = 2


def main() -> int:
    """Serve until a signal ends the process; returns 1 when the pipeline cannot be loaded."""
    parser = argparse.ArgumentParser(prog="openai_server", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of a pipeline in Diffusers layout")
    parser.add_argument("--name", help="what requests call the model; the name of the folder by default")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    asked = parser.parse_args()
    if not (asked.model / "model_index.json").is_file():
        parser.error(f"cannot load {asked.model}: it has no model_index.json")
    # PyTorch takes seconds to load, so not before the arguments are known to be good.
    import uvicorn  # noqa: PLC0415 - a heavy import

    from openai_server.app import build  # noqa: PLC0415 - loads PyTorch
    from openai_server.engine import Engine  # noqa: PLC0415 - loads PyTorch

    try:
        engine = Engine(asked.model, threads=asked.threads)
    except (OSError, ValueError) as error:
        print(f"error: cannot load {asked.model}: {error}", file=sys.stderr)
        return 1
    app = build(engine, name=asked.name or asked.model.resolve().name)
    print(f"{asked.model} is loaded; listening on {asked.host}:{asked.port}", flush=True)
    uvicorn.run(
        app,
        host=asked.host,
        port=asked.port,
        log_level="warning",
        access_log=False,
        limit_concurrency=64,
        timeout_graceful_shutdown=_GRACE_S,
    )
    # The thread that generates would be waited for, and one step of it may take minutes.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
