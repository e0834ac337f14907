"""``paritygate schema``: the JSON Schemas of hand-written files and of records."""

from __future__ import annotations

import json
from typing import Any, cast

import click
import msgspec

from paritygate.manifest.schemas import SchemaName, schema_text
from paritygate.records.model import Real, RunRecord

_FILES = ("case", "gate", "hardware", "lanes", "project", "sources")


@click.command("schema")
@click.argument("name", type=click.Choice([*_FILES, "record"]), default="case")
def command(*, name: str) -> int:
    """Print the JSON Schema of NAME: a hand-written file, or the record of a run.

    Editors use it, for example: paritygate schema case > .vscode/case.schema.json
    """
    click.echo(_record() if name == "record" else schema_text(cast("SchemaName", name)).rstrip("\n"))
    return 0


def _record() -> str:
    schema = msgspec.json.schema(RunRecord, schema_hook=_real)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "paritygate record",
        "description": "record.json: what one run leaves behind.",
    }
    return json.dumps({**head, **schema}, indent=2)


def _real(kind: type) -> dict[str, Any]:
    """``Real`` as ``records.codec`` writes it."""
    if kind is Real:
        return {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
    raise NotImplementedError(kind)
