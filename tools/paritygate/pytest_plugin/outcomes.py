"""What became of each case in one pytest session, and what the session is therefore worth.

Pure data: no hook, no terminal and no manifest. An outcome travels from an xdist worker to the controller
inside the ``user_properties`` of its test report, so every value in it is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

#: Every way a case can end, in the order of the summary.
STATUSES = ("passed", "failed", "provisional", "unvalidated", "invalid", "error", "skipped", "deselected")

#: Ends that prove that the comparison was made: what ``--paritygate-expect`` counts.
CONCLUSIVE = frozenset({"passed", "failed", "provisional", "invalid"})

_PREFIX = "paritygate."
_MEASUREMENT = "measurement."

OK, TESTS_FAILED, INFRASTRUCTURE = 0, 1, 75


@dataclass(frozen=True)
class Outcome:
    """One case as it ended.

    ``green`` says whether that is green here. ``record`` is the path of the written record, or empty when there is
    none. ``detail`` is one line for the summary. ``measurements`` maps measurement id to its value as text (``inf``
    and ``nan`` are spelled out).
    """

    case: str
    status: str
    green: bool = False
    detail: str = ""
    record: str = ""
    run_id: str = ""
    infrastructure: bool = False
    measurements: Mapping[str, str] = field(default_factory=dict)

    @property
    def conclusive(self) -> bool:
        """Whether the comparison was made and its record is on disk."""
        return self.status in CONCLUSIVE and bool(self.record)

    @property
    def red(self) -> bool:
        """Whether it is not green for a reason that the code under test can have."""
        return not (self.green or self.infrastructure)

    def properties(self) -> list[tuple[str, str]]:
        """The outcome as report properties; they are also what JUnit files show."""
        facts = {
            "case": self.case,
            "verdict": self.status,
            "green": "true" if self.green else "",
            "detail": self.detail,
            "record": self.record,
            "run_id": self.run_id,
            "infrastructure": "true" if self.infrastructure else "",
        }
        facts |= {_MEASUREMENT + name: value for name, value in self.measurements.items()}
        return [(_PREFIX + name, value) for name, value in facts.items() if value]


def replace_properties(properties: list[tuple[str, object]], outcome: Outcome) -> None:
    """Let properties tell of this outcome alone: what an earlier try of the same item left goes."""
    properties[:] = [entry for entry in properties if not entry[0].startswith(_PREFIX)] + [*outcome.properties()]


def from_properties(properties: Iterable[tuple[str, object]]) -> Outcome | None:
    """The outcome that ``Outcome.properties`` wrote, or None when the report is of another test."""
    facts = {name.removeprefix(_PREFIX): str(value) for name, value in properties if name.startswith(_PREFIX)}
    if "case" not in facts or "verdict" not in facts:
        return None
    return Outcome(
        case=facts["case"],
        status=facts["verdict"],
        green="green" in facts,
        detail=facts.get("detail", ""),
        record=facts.get("record", ""),
        run_id=facts.get("run_id", ""),
        infrastructure="infrastructure" in facts,
        measurements={
            name.removeprefix(_MEASUREMENT): value for name, value in facts.items() if name.startswith(_MEASUREMENT)
        },
    )


def standing(tries: Sequence[Outcome]) -> Outcome:
    """The outcome of a node that ran once or more: a red try stands, whatever a later one says.

    Only a try that broke on infrastructure may be run again: a number that changes from run to run is no pass.
    """
    stands = next((entry for entry in tries if entry.red), tries[-1])
    if len(tries) == 1:
        return stands
    listed = ", ".join(entry.status for entry in tries)
    return replace(stands, detail=f"{stands.detail} (tries: {listed})".strip())


@dataclass
class Tally:
    """The outcomes of a session by node id, beside the node ids that turned it red."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    deselected: set[str] = field(default_factory=set)
    selected: int = 0
    red: dict[str, bool] = field(default_factory=dict)

    def add(self, node: str, outcome: Outcome) -> None:
        """Keep the outcome of one node; of a repeated node, the one that stands."""
        earlier = self.outcomes.get(node)
        hides = earlier is not None and earlier.red and not outcome.red
        self.outcomes[node] = standing((earlier, outcome)) if earlier and hides else outcome

    def add_red(self, node: str, *, infrastructure: bool) -> None:
        """Note that a node failed; one failure that is not infrastructure decides the node."""
        self.red[node] = infrastructure and self.red.get(node, True)

    def counts(self) -> dict[str, int]:
        """How many nodes ended in each of ``STATUSES``; every status has an entry."""
        counts = dict.fromkeys(STATUSES, 0)
        for outcome in self.outcomes.values():
            counts[outcome.status] += 1
        counts["deselected"] = len(self.deselected)
        return counts

    def conclusive(self) -> int:
        """How many different cases were compared; one case under two nodes counts once."""
        return len({outcome.case for outcome in self.outcomes.values() if outcome.conclusive})

    def infrastructure(self) -> int:
        """How many different cases broke on infrastructure alone."""
        return len({outcome.case for outcome in self.outcomes.values() if outcome.infrastructure})

    def empty(self) -> bool:
        """Whether the session had nothing to do with accuracy cases."""
        return not (self.outcomes or self.deselected)

    def all_green(self) -> bool:
        """Whether no case ended red, whatever its test reported."""
        return all(outcome.green for outcome in self.outcomes.values())

    def only_infrastructure(self) -> bool:
        """Whether nodes failed, and all of them, and every red case, broke on infrastructure alone."""
        any_red = any(outcome.red for outcome in self.outcomes.values())
        return bool(self.red) and all(self.red.values()) and not any_red


def shortfall(tally: Tally, expect: int | None, *, collect_only: bool = False) -> str:
    """Why the session compared fewer cases than it had to, or empty when it did not.

    With ``collect_only``, for a person who asks what would run, the selected cases are held against ``expect``.
    """
    got = tally.selected if collect_only else tally.conclusive()
    if expect is None or got >= expect:
        return ""
    did = "selected" if collect_only else "ended as passed, failed, provisional or invalid"
    return f"expected at least {expect} case{'' if expect == 1 else 's'}, but only {got} {did}"


def exit_status(status: int, tally: Tally, expect: int | None, *, collect_only: bool = False) -> int:
    """The exit status of the session, from pytest's own.

    2 to 5 keep pytest's meaning. 1 becomes 75 when every red node broke on infrastructure and those cases
    explain whatever is missing from ``expect``; 0 becomes 1 when a case ended red or ``expect`` is unmet.
    """
    short = shortfall(tally, expect, collect_only=collect_only)
    if status == TESTS_FAILED and tally.only_infrastructure():
        explained = expect is None or tally.conclusive() + tally.infrastructure() >= expect
        return INFRASTRUCTURE if explained else status
    return TESTS_FAILED if status == OK and (short or not tally.all_green()) else status


def summary(tally: Tally) -> list[str]:
    """The lines of the terminal summary: the counts, then one line per case that did not pass."""
    counts = tally.counts()
    lines = [", ".join(f"{name} {counts[name]}" for name in STATUSES)]
    listed = sorted(tally.outcomes.values(), key=lambda outcome: (STATUSES.index(outcome.status), outcome.case))
    lines += [f"{o.status} {o.case}: {o.detail}" for o in listed if o.status != "passed"]
    return lines
