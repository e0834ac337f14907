"""The committed records that a gate rests on: which they are, their digest, and whether they support the bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from paritygate.errors import ArtifactError, ManifestError, MediaError, Problem
from paritygate.gates.files import Gate, GateProfile, load_gate
from paritygate.gates.judge import apply_bound
from paritygate.manifest.case import Case
from paritygate.manifest.contract import contract
from paritygate.media.paths import list_files, read_tail
from paritygate.records.canonical import sha256_bytes
from paritygate.records.model import RunRecord, Status
from paritygate.records.store import parse_record

#: Beside the manifest; several cases may share it, a record names its own case and device.
FOLDER = "evidence"
#: A record of a large suite has a few MiB.
MAX_BYTES = 16 << 20
#: Reasons that speak of the bounds of that day, not of the run: today's bounds are applied to its numbers anew.
_OF_BOUNDS = frozenset(
    {"bound-not-met", "bounds-met", "no-bounds", "no-gate", "no-profile", "other-contract", "plumbing"}
    | {"proposed-bounds", "unsupported-bounds"}
)


class Evidence(NamedTuple):
    """One committed record. ``digest`` is of the bytes that ``record`` was read from."""

    path: Path
    digest: str
    record: RunRecord


def evidence_records(case: Case, *, sku: str, cards: int = 0, arch: str | None = None) -> tuple[Evidence, ...]:
    """The committed records of one case variant on one device, sorted by path; ``arch=None`` takes any.

    Raises:
        ArtifactError: when a file in the folder is no readable record, no plain file, or too large.
    """
    folder = case.folder / FOLDER
    found = (_read(case.root, folder / name) for name in list_files(folder) if name.endswith(".json"))
    return tuple(
        entry
        for entry in found
        if (entry.record.case, entry.record.profile.sku, entry.record.profile.cards) == (case.id, sku, cards)
        and arch in (None, entry.record.profile.arch)
    )


def evidence_digest(records: Iterable[Evidence]) -> str:
    """``sha256:<64 hex>`` over the sorted digests of the files, one a line; names and places do not count."""
    return sha256_bytes("".join(f"{digest}\n" for digest in sorted(entry.digest for entry in records)).encode())


def check_evidence(case: Case, gate: Gate) -> tuple[Problem, ...]:
    """Every way in which the committed records do not support the gate of this case variant, sorted."""
    found: list[Problem] = []
    for profile in gate.profiles:
        if profile.variant != case.variant:
            continue
        pointer = (*profile.pointer, "evidence")
        for message, hint in _messages(case, profile):
            found.append(gate.document.problem(pointer, "gate-evidence", message, hint=hint))
    return tuple(sorted(found))


def check_contract(case: Case, gate: Gate) -> tuple[Problem, ...]:
    """The problem of a gate that holds for this case variant as it was, and no longer as it is."""
    of_variant = [profile for profile in gate.profiles if profile.variant == case.variant]
    try:
        current = contract(case)
    except OSError as error:
        message = f"the contract of {case.id} cannot be known: {error.filename} cannot be read: {error.strerror}"
        return (gate.document.problem(("contract",), "gate-contract", message, hint="make the file readable"),)
    if not of_variant or any(profile.contract == current for profile in of_variant):
        return ()
    has_own = of_variant[0].contract != gate.document.data["contract"]
    pointer = (*of_variant[0].pointer, "contract") if has_own else ("contract",)
    message = f"the bounds of {case.id} hold for another contract; that of the case as it is now is {current}"
    hint = f"run it again, replace its records in {FOLDER}/, and write this contract"
    return (gate.document.problem(pointer, "gate-contract", message, hint=hint),)


def check_all_evidence(cases: Iterable[Case]) -> tuple[Problem, ...]:
    """Every gate of ``cases`` that holds for another contract, or that its committed records do not support, sorted.

    Unreadable gate files are left out.
    """
    found: list[Problem] = []
    for case in cases:
        try:
            gate = load_gate(case)
        except ManifestError:  # the rules on gate files have reported it
            continue
        if gate is not None:
            found += [*check_contract(case, gate), *check_evidence(case, gate)]
    return tuple(sorted(found))


def _read(root: Path, path: Path) -> Evidence:
    """One record, read once, so that its digest is of what was looked at."""
    relative = path.relative_to(root).as_posix()
    try:
        data = read_tail(root, relative, limit=MAX_BYTES + 1)
    except MediaError as error:
        raise ArtifactError(error.message, hint=f"keep nothing but plain files in {FOLDER}/") from error
    if len(data) > MAX_BYTES:
        raise ArtifactError(f"{relative} has more than {MAX_BYTES} bytes", hint="commit a record of fewer requests")
    return Evidence(path, sha256_bytes(data), parse_record(data, source=relative))


def _messages(case: Case, profile: GateProfile) -> Iterator[tuple[str, str]]:
    try:
        records = evidence_records(case, sku=profile.sku, cards=profile.cards, arch=profile.arch)
    except ArtifactError as error:
        yield error.message, error.hint
        return
    if not records:
        yield f"there are no records of {case.id} on {profile.device} in {FOLDER}/", "commit the records of the runs"
        return
    digest = evidence_digest(records)
    if digest != profile.evidence:
        hint = f"if these are the right records, write: evidence: {digest}"
        have = "committed record has" if len(records) == 1 else f"{len(records)} committed records have"
        yield f"the {have} the digest {digest}, not {profile.evidence}", hint
    if len({entry.record.run_id for entry in records}) != len(records):
        yield "one run is committed twice", "repeat the run instead of the file"
    supporting: list[RunRecord] = []
    for entry in records:
        if fault := next(_faults(entry.record, profile), ""):
            yield f"{entry.path.name} does not support the bounds: {fault}", "remove it, or measure again"
        else:
            supporting.append(entry.record)
    yield from _unlisted(supporting, profile)


def _unlisted(records: list[RunRecord], profile: GateProfile) -> Iterator[tuple[str, str]]:
    """Exact items that were equal in every run: left out of the gate, they could vanish without a word."""
    if not records:
        return
    equal = [{entry.name for entry in record.comparison.exact if entry.status == "equal"} for record in records]
    if missing := sorted(set.intersection(*equal) - set(profile.exact)):
        listed = ", ".join([*profile.exact, *missing])
        yield f"every record shows {', '.join(missing)} equal, and exact does not list it", f"write: exact: [{listed}]"


def _faults(record: RunRecord, profile: GateProfile) -> Iterator[str]:
    if record.contract != profile.contract:
        yield f"its contract is {record.contract}, the gate's {profile.contract}"
    if record.purpose != "run":
        yield f"it is a {record.purpose} run"
    status = record.verdict.status
    against = [reason.message for reason in record.verdict.reasons if reason.code not in _OF_BOUNDS]
    if against or status in (Status.ERROR, Status.INVALID):
        yield f"it is {status.value}: {against[0] if against else 'it gives no reason'}"
    for entry in record.comparison.exact:
        if entry.status == "different":
            yield f"its {entry.name} differ"
        elif not entry.is_shown and entry.name in profile.exact:
            yield f"it does not show {entry.name}, which the gate lists"
    for result in (apply_bound(bound, record.comparison) for bound in profile.bounds):
        if not result.satisfied:
            yield f"{result.measurement} was {result.value:.6g}, the bound is {result.words}"
