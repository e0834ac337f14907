"""One leg from the harness's side: job file, child process, and what came of it as a ``LegRecord``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from paritygate.errors import ArtifactError, LegError, MediaError, UsageError
from paritygate.manifest.case import Case, Item, Leg
from paritygate.media.paths import read_contained
from paritygate.records.codec import dumps, loads
from paritygate.records.model import (
    EFFECTIVE_NAME,
    EFFECTIVE_SCHEMA_VERSION,
    OUTPUTS_FOLDER,
    OUTPUTS_NAME,
    Effective,
    LegRecord,
    OutputItem,
)
from paritygate.records.redact import redact_data
from paritygate.records.store import write_text_atomic
from paritygate.runners.failures import FAILURE_NAME, KINDS, Failure, classify_exit, shorten
from paritygate.runners.job import DELIVERY_FOLDER, LOG_NAME, Job, Outputs
from paritygate.runners.process import MAX_LOG_BYTES, Outcome, run_process
from paritygate.runners.table import find_runner

_T = TypeVar("_T")

JOB_NAME = "job.json"

#: Libraries read their thread count from these; one thread is repeatable, and two can be 100 times slower when shared.
_THREAD_VARIABLES = (
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_LEG_ENVIRONMENT = {
    # The order of nvidia-smi, from which preflight took the names of the cards.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONUTF8": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_OFFLINE": "1",
}


class Latents(msgspec.Struct, frozen=True, kw_only=True):
    """The shared initial latents of a run: ``path`` of the ``.npy`` file and its digest when it was drawn."""

    path: Path
    sha256: str


def run_leg(
    case: Case,
    leg: Leg,
    *,
    items: tuple[Item, ...],
    run_dir: Path,
    model_dir: Path | None,
    latents: Latents | None,
    device: str = "cpu",
    golden: Path | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> LegRecord:
    """Run one leg in a process of its own and return what came of it; a broken leg is data, not an exception.

    Args:
        case: the case; its artifacts and verdict rules stay out of the job.
        leg: which side to run.
        items: the whole suite.
        run_dir: the run directory; ``run_dir/<leg name>`` must not exist yet.
        model_dir: where the weights are, as preflight found them.
        latents: the shared latents, when the case has them.
        device: where the case runs, for a leg that does not say.
        golden: the local folder of the golden that this leg reads.
        progress: called with the number of suite items stored so far.

    Raises:
        UsageError: when the run has this leg already.
        ArtifactError: when the leg's folder cannot be made.
    """
    directory = _leg_folder(run_dir, leg)
    job = build_job(
        case,
        leg,
        items=items,
        directory=directory,
        model_dir=model_dir,
        latents=latents,
        device=device,
        golden=golden,
    )
    write_text_atomic(directory / JOB_NAME, dumps(job))
    try:
        outcome = _run_worker(case, leg, directory, progress)
    except LegError as error:
        failure = Failure(kind=error.kind, message=shorten(error.message))
        return _record(case, leg, outcome=Outcome(exit_code=None, duration_s=0), failure=failure)
    return _read_back(case, leg, run_dir=directory.parent, outcome=outcome)


def _run_worker(case: Case, leg: Leg, directory: Path, progress: Callable[[int], None]) -> Outcome:
    def tick() -> None:
        # What a command has delivered moves to the outputs when it has ended.
        folders = (folder for folder in (OUTPUTS_FOLDER, DELIVERY_FOLDER) if not (directory / folder).is_symlink())
        progress(
            max((len({path.parent for path in directory.glob(f"{folder}/*/0.*")}) for folder in folders), default=0)
        )

    outcome = run_process(
        [worker_interpreter(case, leg), "-m", "paritygate.runners.worker", str(directory / JOB_NAME)],
        cwd=directory,
        env=leg_environment(leg, os.environ),
        log=directory / LOG_NAME,
        timeout_s=leg.timeout_s,
        tick=tick,
    )
    tick()
    return outcome


def build_job(
    case: Case,
    leg: Leg,
    *,
    items: tuple[Item, ...],
    directory: Path,
    model_dir: Path | None,
    latents: Latents | None,
    device: str = "cpu",
    golden: Path | None = None,
) -> Job:
    """What the worker of a leg is told: the request and its own settings, nothing about the other leg or a bound."""
    return Job(
        case=case.id,
        leg=leg.name,
        runner=leg.runner,
        root=str(case.root),
        folder=str(case.folder),
        directory=str(directory),
        adapter=str(case.root / leg.adapter) if leg.adapter else None,
        spec=dict(leg.spec),
        feature=leg.feature.name if leg.feature else None,
        model_id=case.model.id,
        model_revision=case.model.revision,
        model_dir=str(model_dir) if model_dir else None,
        output=case.output,
        inputs=case.inputs,
        items=items,
        latents=str(latents.path) if latents else None,
        device=device,
        task=case.task,
        python=interpreter(case, leg),
        golden=str(golden) if golden else None,
    )


def worker_interpreter(case: Case, leg: Leg) -> str:
    """The Python in which the leg's worker runs: the leg's own, or ours where the runner only starts something."""
    return interpreter(case, leg) if find_runner(leg.runner).in_leg_python else sys.executable


def interpreter(case: Case, leg: Leg) -> str:
    """The leg's Python: this one, a path relative to the project, an absolute path, or a name on PATH."""
    if leg.python is None:
        return sys.executable
    if "/" in leg.python:
        return str(case.root / Path(leg.python).expanduser())
    return shutil.which(leg.python) or leg.python


def leg_environment(leg: Leg, base: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a leg: offline, unbuffered, and with the declared number of threads (one)."""
    threads = str(leg.spec.get("threads") or 1)
    return {**base, **_LEG_ENVIRONMENT, **dict.fromkeys(_THREAD_VARIABLES, threads)}


def _leg_folder(run_dir: Path, leg: Leg) -> Path:
    directory = run_dir / leg.name
    try:
        directory.mkdir()
    except FileExistsError as error:
        raise UsageError(
            f"the run {run_dir.name} has a {leg.name} leg already", hint="use another --run-id; runs are never reused"
        ) from error
    except OSError as error:
        raise ArtifactError(
            f"cannot create {directory}: {error.strerror or error}", hint="free space, or choose another --artifacts"
        ) from error
    return directory.resolve()


def _read_back(case: Case, leg: Leg, *, run_dir: Path, outcome: Outcome) -> LegRecord:
    """What the leg left, none of it trusted: plain files of a bounded size, or the leg is broken."""
    outputs, no_outputs = _read(run_dir, f"{leg.name}/{OUTPUTS_NAME}", Outputs)
    effective, no_effective = _read(run_dir, f"{leg.name}/{EFFECTIVE_NAME}", Effective)
    if effective is not None and effective.schema_version > EFFECTIVE_SCHEMA_VERSION:
        no_effective = f"{EFFECTIVE_NAME} is of the later version {effective.schema_version}"
    linked = "outputs/ is a symbolic link" if (run_dir / leg.name / OUTPUTS_FOLDER).is_symlink() else ""
    faults = [fault for fault in (no_outputs, no_effective, linked) if fault]
    complete = outputs is not None and outputs.complete
    return _record(
        case,
        leg,
        outcome=outcome,
        failure=_failure(leg, run_dir=run_dir, outcome=outcome, complete=complete, faults=faults),
        items=outputs.items if outputs else (),
        effective=effective,
    )


def _record(
    case: Case,
    leg: Leg,
    *,
    outcome: Outcome,
    failure: Failure | None,
    items: tuple[OutputItem, ...] = (),
    effective: Effective | None = None,
) -> LegRecord:
    path = Path(interpreter(case, leg))
    if effective is not None:
        effective = msgspec.structs.replace(
            effective,
            settings=redact_data(effective.settings),
            features=redact_data(effective.features),
            environment=redact_data(effective.environment),
        )
    return LegRecord(
        name=leg.name,
        runner=leg.runner,
        interpreter=path.relative_to(case.root).as_posix() if path.is_relative_to(case.root) else path.name,
        duration_s=outcome.duration_s,
        exit_code=outcome.exit_code,
        failure=failure.kind if failure else None,
        message=failure.message if failure else "",
        log=f"{leg.name}/{LOG_NAME}",
        items=items,
        effective=effective,
    )


def _failure(leg: Leg, *, run_dir: Path, outcome: Outcome, complete: bool, faults: list[str]) -> Failure | None:
    if outcome.flooded:
        return Failure(kind="crash", message=f"printed more than the {MAX_LOG_BYTES >> 20} MiB a log may have; ended")
    if outcome.exit_code is None:
        return Failure(kind="timeout", message=f"still running after timeout_s: {leg.timeout_s:g}; ended")
    if outcome.exit_code == 0 and faults:
        return Failure(kind="crash", message=shorten(f"the leg's own files are unusable: {'; '.join(faults)}"))
    if outcome.exit_code == 0 and complete:
        return None
    stated, _ = _read(run_dir, f"{leg.name}/{FAILURE_NAME}", Failure)
    if stated is None or stated.kind not in KINDS:
        return classify_exit(outcome.exit_code, run_dir / leg.name / LOG_NAME)
    return Failure(kind=stated.kind, message=shorten(stated.message))


def _read(run_dir: Path, relative: str, kind: type[_T]) -> tuple[_T | None, str]:
    """What the leg left in a file, or None and why: a leg that died may have left none, an adapter may spoil one."""
    try:
        return loads(read_contained(run_dir, relative), kind, source=relative), ""
    except (ArtifactError, MediaError) as error:
        return None, error.message
