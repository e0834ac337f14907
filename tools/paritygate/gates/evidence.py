"""The committed records that a gate rests on: which they are, their digest, and whether they support the bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from paritygate.errors import ArtifactError, ManifestError, Problem
from paritygate.gates.files import Gate, GateProfile, load_gate
from paritygate.gates.judge import apply_bound
from paritygate.manifest.case import Case
from paritygate.records.canonical import sha256_bytes, sha256_file
from paritygate.records.model import RunRecord, Status
from paritygate.records.store import read_record

#: Beside the manifest; several cases may share it, a record names its own case and device.
FOLDER = "evidence"


def evidence_records(case: Case, *, sku: str, arch: str | None = None) -> dict[Path, RunRecord]:
    """The committed records of one case variant on one device, by path, sorted; ``arch=None`` takes any.

    Raises:
        ArtifactError: when a file in the folder is no readable record.
    """
    files = sorted((case.folder / FOLDER).rglob("*.json"))
    records = {path: read_record(path) for path in files}
    return {
        path: record
        for path, record in records.items()
        if (record.case, record.profile.sku) == (case.id, sku) and arch in (None, record.profile.arch)
    }


def evidence_digest(paths: Iterable[Path]) -> str:
    """``sha256:<64 hex>`` over the sorted digests of the files, one a line; names and places do not count."""
    return sha256_bytes("".join(f"{digest}\n" for digest in sorted(map(sha256_file, paths))).encode())


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


def check_all_evidence(cases: Iterable[Case]) -> tuple[Problem, ...]:
    """Every gate of ``cases`` that its committed records do not support, sorted; unreadable gate files are left out."""
    found: list[Problem] = []
    for case in cases:
        try:
            gate = load_gate(case)
        except ManifestError:  # the rules on gate files have reported it
            continue
        if gate is not None:
            found += check_evidence(case, gate)
    return tuple(sorted(found))


def _messages(case: Case, profile: GateProfile) -> Iterator[tuple[str, str]]:
    try:
        records = evidence_records(case, sku=profile.sku, arch=profile.arch)
    except ArtifactError as error:
        yield error.message, error.hint
        return
    if not records:
        yield f"there are no records of {case.id} on {profile.sku} in {FOLDER}/", "commit the records of the runs"
        return
    digest = evidence_digest(records)
    if digest != profile.evidence:
        hint = f"if these are the right records, write: evidence: {digest}"
        yield f"the {len(records)} committed records have the digest {digest[:19]}, not {profile.evidence[:19]}", hint
    if len({record.run_id for record in records.values()}) != len(records):
        yield "one run is committed twice", "repeat the run instead of the file"
    for path, record in records.items():
        if fault := next(_faults(record, profile), ""):
            yield f"{path.name} does not support the bounds: {fault}", "remove it, or measure again"


def _faults(record: RunRecord, profile: GateProfile) -> Iterator[str]:
    if record.contract != profile.contract:
        yield f"its contract is {record.contract[:19]}, the gate's {profile.contract[:19]}"
    if record.purpose != "run":
        yield f"it is a {record.purpose} run"
    if record.verdict.status in (Status.ERROR, Status.INVALID):
        yield f"it is {record.verdict.status.value}: {record.verdict.reasons[0].message}"
    for entry in record.comparison.exact:
        if entry.status == "different":
            yield f"its {entry.name} differ"
        elif entry.status == "unreported" and entry.name in profile.exact:
            yield f"it does not show {entry.name}, which the gate lists"
    for result in (apply_bound(bound, record.comparison) for bound in profile.bounds):
        if not result.satisfied:
            yield f"{result.measurement} was {result.value:.6g}, the bound is {result.words}"
