"""``paritygate new``: the folder of a new case, valid from the start."""

from __future__ import annotations

import re
from pathlib import Path

import click

from paritygate.cli.scaffold import template, write_new
from paritygate.errors import UsageError
from paritygate.manifest.index import load_cases
from paritygate.manifest.project import Project, find_project
from paritygate.manifest.registries import Registries, load_registries
from paritygate.manifest.rules.comparison import MAX_ID_LENGTH
from paritygate.manifest.scalars import resolve

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]*\Z")


@click.command("new")
@click.argument("slug")
def command(*, slug: str) -> int:
    """Scaffold the case SLUG: a manifest and a README, in a folder of its own."""
    if not _SLUG.match(slug) or len(slug) > MAX_ID_LENGTH:
        message = f"{slug!r} is not an id: lower-case letters, digits and hyphens, at most {MAX_ID_LENGTH}"
        raise UsageError(message, hint=f"for example: paritygate new {_suggest(slug)}")
    project = find_project(Path.cwd())
    registries = load_registries(project)
    values = {"slug": slug, "id": _scalar(slug), **_choices(registries)}
    folder = f"{project.cases[0]}/{slug.replace('-', '_')}"
    _refuse_taken(project, registries, slug=slug, folder=folder)
    for name, source in ((f"{slug}.case.yaml", "case.yaml"), ("README.md", "README.md")):
        write_new(project.root / folder / name, template(source, values))
        click.echo(f"wrote {folder}/{name}")
    click.echo("next:")
    click.echo(f"  1. fill in what is marked <- in {folder}/{slug}.case.yaml, and the claim in README.md")
    click.echo("  2. paritygate validate")
    click.echo("  3. paritygate ci generate")
    click.echo(f"  4. paritygate preflight {slug}, then paritygate run {slug}")
    return 0


def _suggest(slug: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:MAX_ID_LENGTH] or "my-case"


def _choices(registries: Registries) -> dict[str, str]:
    """The lane and hardware that the scaffold starts with: the first of each registry.

    Raises:
        UsageError: when a registry is empty.
    """
    if not registries.lanes or not registries.hardware:
        message = "a case needs a lane and hardware, and the project declares none"
        raise UsageError(message, hint="write .buildkite/lanes.yml and hardware.yml with: paritygate init")
    lane = next(iter(registries.lanes))
    hardware = next(iter(registries.hardware.values()))
    return {"lane": _scalar(lane), "sku": _scalar(hardware.sku), "cards": str(hardware.cards[0])}


def _scalar(word: str) -> str:
    """A word as YAML text: ``123`` and ``null`` are ids too."""
    return word if resolve(word) == word else f'"{word}"'


def _refuse_taken(project: Project, registries: Registries, *, slug: str, folder: str) -> None:
    for case in load_cases(project, registries).cases:
        if slug in {case.id, case.base_id}:
            raise UsageError(f"the id {slug!r} is taken by {case.manifest}", hint="choose another slug")
    for name in (f"{slug}.case.yaml", "README.md"):
        if (project.root / folder / name).exists():
            raise UsageError(f"{folder}/{name} exists already", hint="choose another slug, or edit that case")
