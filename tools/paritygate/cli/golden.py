"""``paritygate golden``: frozen references, from the draft to the version that a manifest names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paritygate.cli.project import Opened, open_project, require_run_extra
from paritygate.cli.watch import settle, watcher
from paritygate.errors import ExitCode, GoldenError, ManifestError, printable
from paritygate.session.provenance import in_ci

if TYPE_CHECKING:
    from paritygate.goldens.listing import Checked, Draft, Listed
    from paritygate.goldens.promote import Promoted

#: Files that a promotion names; the rest is in the JSON.
_SHOWN = 10


@click.group("golden")
def command() -> None:
    """Make, verify, promote and list goldens: references that are frozen, and never made where they are compared."""


@command.command("create")
@click.argument("name", metavar="CASE")
@click.option("--name", "golden", metavar="NAME", help="Name of the golden; the case's id by default.")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder for the run and the draft.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def create_command(*, name: str, golden: str | None, artifacts: Path | None, as_json: bool) -> int:
    """Run the reference leg of CASE, or its golden's generator, and keep the outputs as a draft.

    A draft that could not be made again says so, and why: a worktree that is not clean, versions that are not pinned,
    weights that were not verified, outputs that are broken.

    \b
    Exit codes:
      0   a draft was made, promotable or not
      1   in CI, or the draft cannot be written
      2   usage or manifest
      3   preflight
      4   the leg broke
      75  nothing but infrastructure
    """  # noqa: D301 - click reads the backspace
    _refuse_ci("made")
    opened = open_project(artifacts)
    case = opened.case(name)
    require_run_extra()
    from paritygate.session.goldens import create_draft  # noqa: PLC0415 - loads with the run extra

    created = create_draft(case, opened.project, opened.registries, name=golden, progress=watcher(sys.stderr))
    settle(sys.stderr)
    made, shown = created.golden, _relative(created.folder)
    if as_json:
        _echo_json({"case": case.id, "name": made.name, "draft": shown, "promotable": made.promotable,
                    "reasons": list(made.reasons), "files": len(made.files)})  # fmt: skip
        return int(ExitCode.OK)
    state = "promotable" if made.promotable else "not promotable"
    _echo(f"{made.name}: draft of {len(made.items)} items, {state}", *(f"  {reason}" for reason in made.reasons))
    step = f'paritygate golden promote {shown} --reason "..."' if made.promotable else "mend that and create it again"
    _echo(f"  draft: {shown}", f"  next: look at its outputs, then: {step}" if made.promotable else f"  next: {step}")
    return int(ExitCode.OK)


@command.command("promote")
@click.argument("draft", metavar="DRAFT")
@click.option("--reason", required=True, help="Why these outputs are right; kept in the golden.")
@click.option("--oracle", help="What shows it independently; needed when a version is replaced.")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder where the draft lies (project default).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def promote_command(*, draft: str, reason: str, oracle: str | None, artifacts: Path | None, as_json: bool) -> int:
    """Give DRAFT (a folder, or a run id) the next version of its name. No version is ever written over.

    Exit codes: 0 promoted; 1 in CI, or the draft is altered or not promotable; 2 usage, manifests, or the oracle is
    missing; 75 infrastructure only.
    """
    _refuse_ci("promoted")
    opened = _whole_project(artifacts)
    require_run_extra()
    from paritygate.goldens.promote import find_draft, promote  # noqa: PLC0415

    found = find_draft(opened.project, draft)
    promoted = promote(opened.project, found, reason=reason, oracle=oracle, cases=opened.loaded.cases)
    if as_json:
        _echo_json(_promoted_data(promoted))
    else:
        _echo(*_promoted_lines(promoted))
    return int(ExitCode.OK)


@command.command("verify")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def verify_command(*, names: tuple[str, ...], as_json: bool) -> int:
    """Verify every golden in the project, and every one that a case refers to, byte by byte.

    Exit codes: 0 all are as frozen; 1 something is missing, altered or hostile; 2 manifests; 75 infrastructure only.
    """
    opened = _whole_project()
    require_run_extra()
    from paritygate.goldens.listing import verified  # noqa: PLC0415

    checked = verified(opened.project, opened.loaded.cases, names)
    wrong = [entry for entry in checked if entry.problem]
    if as_json:
        _echo_json({"ok": not wrong, "goldens": [_data(entry) for entry in checked]})
    else:
        _echo(*(line for entry in checked for line in _checked_lines(entry)))
        count = "1 golden" if len(checked) == 1 else f"{len(checked)} goldens"
        _echo(f"{count}, {len(wrong)} wrong" if checked else "no golden, and no case that needs one")
    return int(ExitCode.FAILED if wrong else ExitCode.OK)


@command.command("list")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Folder where drafts lie (project default).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def list_command(*, artifacts: Path | None, as_json: bool) -> int:
    """List goldens with the cases that use them, orphans that none uses, missing ones, and drafts.

    Exit codes: 0 listed; 1 a case refers to a golden that is missing; 2 manifests.
    """
    opened = _whole_project(artifacts)
    require_run_extra()
    from paritygate.goldens.listing import listed, listed_drafts  # noqa: PLC0415

    found, drafts = listed(opened.project, opened.loaded.cases), listed_drafts(opened.project)
    missing = any(entry.state == "missing" for entry in found)
    if as_json:
        _echo_json({"ok": not missing, "goldens": [_data(entry) for entry in found],
                    "drafts": [_data(entry) for entry in drafts]})  # fmt: skip
    else:
        _echo(*_listed_lines(found, drafts))
    return int(ExitCode.FAILED if missing else ExitCode.OK)


def _refuse_ci(verb: str) -> None:
    """Goldens are made by people: where cases are compared, making what they are compared with proves nothing.

    Raises:
        GoldenError: in CI.
    """
    if in_ci():
        raise GoldenError(
            f"a golden is not {verb} in CI (the variable CI is set): what is compared there cannot be made there",
            hint="run this on your machine, and commit the new version",
        )


def _whole_project(artifacts: Path | None = None) -> Opened:
    """The project, when every manifest can be read: what a broken one refers to would be overlooked.

    Raises:
        ManifestError: with every problem.
    """
    opened = open_project(artifacts)
    if opened.loaded.problems:
        raise ManifestError(opened.loaded.problems)
    return opened


def _promoted_data(promoted: Promoted) -> dict[str, Any]:
    from paritygate.goldens.listing import snippet  # noqa: PLC0415

    return {
        "golden": snippet(promoted.ref),
        "folder": _relative(promoted.folder),
        "before": snippet(promoted.before) if promoted.before else None,
        "moved": [
            {"file": entry.file, "metric": entry.metric, "largest": _plain(entry.largest), "problem": entry.problem}
            for entry in promoted.moved
        ],
    }


def _promoted_lines(promoted: Promoted) -> Iterator[str]:
    ref = promoted.ref
    yield f"promoted {ref}: {_relative(promoted.folder)}"
    if promoted.before:
        yield f"  moved from {promoted.before}, largest difference of each file:"
        for entry in promoted.moved[:_SHOWN]:
            yield f"    {entry.file}: {entry.problem or f'{entry.metric} {entry.largest:.6g}'}"
        if (more := len(promoted.moved) - _SHOWN) > 0:
            yield f"    and {more} more (--json shows all)"
    yield "  commit the folder, and name it in manifests as:"
    yield f'    golden: {{name: {ref.name}, version: {ref.version}, digest: "{ref.digest}"}}'


def _checked_lines(entry: Checked) -> Iterator[str]:
    version = f" v{entry.version}" if entry.version else ""
    yield f"{entry.name}{version}: {entry.problem or 'as frozen'}"
    if entry.problem and entry.fix:
        yield f"  fix: {entry.fix}"


def _listed_lines(found: tuple[Listed, ...], drafts: tuple[Draft, ...]) -> Iterator[str]:
    words = {"used": "", "orphan": ": orphan, no case refers to it", "missing": ": MISSING"}
    for entry in found:
        users = f", used by {', '.join(entry.cases)}" if entry.cases else ""
        place = "" if entry.place in ("", "folder") else f" ({entry.place})"
        yield f"{entry.name} v{entry.version}{place}{words[entry.state]}{users}"
    for draft in drafts:
        yield f"{draft.name} draft, {'promotable' if draft.promotable else 'not promotable'}: {draft.path}"
        yield from (f"  {reason}" for reason in draft.reasons)
    if not found and not drafts:
        yield "no golden, no draft, and no case that needs one"


def _relative(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _plain(value: float) -> float | str:
    """A number for strict JSON; NaN is spelled."""
    return float(value) if value - value == 0 else repr(float(value))


def _data(entry: Checked | Listed | Draft) -> Any:
    import msgspec  # noqa: PLC0415 - beside the rooms that load on use

    return msgspec.to_builtins(entry)


def _echo(*lines: str) -> None:
    for line in lines:
        click.echo(printable(line, lines=True))


def _echo_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2))
