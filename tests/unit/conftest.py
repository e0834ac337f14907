"""Small real parts that several rooms test with: a case, its suite, and legs with files on disk."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from paritygate.cli import main as command_line
from paritygate.gates.evidence import Evidence, evidence_digest
from paritygate.manifest.case import Case, Ci, Coverage, Item, Leg, Measure, Measurement, Model, Output
from paritygate.media.images import encode_png
from paritygate.records.canonical import sha256_bytes
from paritygate.records.codec import dumps
from paritygate.records.model import (
    Comparison,
    DeviceProfile,
    Effective,
    ExactResult,
    LegRecord,
    MeasurementResult,
    OutputFile,
    OutputItem,
    Real,
    RunRecord,
    Status,
    Verdict,
)

SIZE = 24


def build_leg(name: str, **changes: Any) -> Leg:
    leg = Leg(name=name, runner="python", adapter=f"{name}.py", python=None, timeout_s=60, requires={}, assets=(),
              feature=None, spec={})  # fmt: skip
    return msgspec.structs.replace(leg, **changes)


def measurement(metric: str, aggregate: str, *, pixels: str = "stored", target: float | None = None) -> Measurement:
    prefix = "output.float" if pixels == "float" else "output"
    return Measurement(
        id=f"{prefix}.{metric}.{aggregate}", metric=metric, aggregate=aggregate, pixels=pixels, target=target
    )


def build_case(root: Path, **changes: Any) -> Case:
    case = Case(
        id="demo", base_id="demo", variant=None, root=root, manifest="cases/demo.case.yaml", title="Demo",
        claim="native-parity", task="t2i", model=Model(id="org/demo", revision="0" * 40, weights="trained"),
        initial_latents="seeded", inputs=(), output=Output(kind="images", width=SIZE, height=SIZE),
        reference=build_leg("reference"), candidate=build_leg("candidate"), low_precision=None, differences=(),
        measure=Measure(
            exact=("token_ids", "timesteps", "config"), parts=(),
            output=(measurement("psnr_db", "min", target=30), measurement("ssim", "min"),
                    measurement("abs_diff_max", "max")),
        ),
        checklist_require=(), coverage=Coverage(exercises=("denoiser",), gaps=("batch > 1",)),
        ci=Ci(lane="nightly", group=None, sku=("CPU",), cards=0, timeout_minutes=10, sources=(), setup=()), document={},
    )  # fmt: skip
    return msgspec.structs.replace(case, **changes)


def build_items(count: int = 3) -> tuple[Item, ...]:
    return tuple(
        Item(id=f"{index:03d}", request={"prompt": f"picture {index}", "seed": 40 + index}) for index in range(count)
    )


def picture(seed: int, *, shift: float = 0.0) -> np.ndarray:
    """A smooth coloured picture, float32 in [0, 1], ``(SIZE, SIZE, 3)``; ``shift`` moves every value."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    rng = np.random.default_rng(seed)
    waves = np.stack([np.sin(6 * x * rng.uniform(1, 2) + c) * np.cos(5 * y + seed) for c in range(3)], axis=-1)
    return np.clip(0.5 + 0.35 * waves + shift, 0, 1).astype(np.float32)


def effective(**changes: Any) -> Effective:
    base = Effective(
        settings={"device": "cpu", "dtype.unet": "float32", "config.guidance_scale": 3.0, "config.steps": 4},
        token_ids={item.id: [[1, 2, 3], [1, 9, 3]] for item in build_items()},
        timesteps=[751, 501, 251, 1],
        sigmas=[7.5, 2.5, 0.5, 0.02],
    )
    return msgspec.structs.replace(base, **changes)


def store(folder: Path, relative: str, data: bytes) -> str:
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return sha256_bytes(data)


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def write_leg(run_dir: Path, name: str, images: dict[str, list[np.ndarray]], **changes: Any) -> LegRecord:
    """A leg as a worker leaves it: float32 pictures are stored rounded and unrounded, uint8 ones as they are."""
    items = []
    for item_id, arrays in images.items():
        files = []
        for index, array in enumerate(arrays):
            stem = f"outputs/{item_id}/{index}"
            floats = array.dtype == np.float32
            stored = np.rint(array * 255).astype(np.uint8) if floats else array
            file = OutputFile(path=f"{stem}.png", sha256=store(run_dir / name, f"{stem}.png", encode_png(stored)))
            if floats:
                digest = store(run_dir / name, f"{stem}.npy", npy_bytes(array))
                file = msgspec.structs.replace(file, float_path=f"{stem}.npy", float_sha256=digest)
            files.append(file)
        items.append(OutputItem(id=item_id, images=tuple(files)))
    (run_dir / name).mkdir(parents=True, exist_ok=True)
    (run_dir / name / "log.txt").write_text("loading\ndone\n", encoding="utf-8")
    leg = LegRecord(
        name=name, runner="python", interpreter="/usr/bin/python3", duration_s=1.5, exit_code=0, failure=None,
        message="", log=f"{name}/log.txt", items=tuple(items), effective=effective(),
    )  # fmt: skip
    return msgspec.structs.replace(leg, **changes)


def run_command(capsys: Any, words: Sequence[str]) -> tuple[int, str, str]:
    """Run a command in this process; its exit code, output and error output."""
    with pytest.raises(SystemExit) as ended:
        command_line.main(list(words))
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.fixture(scope="session", autouse=True)
def private_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Projects of tests leave nothing in the cache folder of whoever runs them; inner processes inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def write_evidence(folder: Path, *, case: str, contract: str, shown: tuple[str, ...] = ()) -> str:
    """Commit the record of one perfect run on a processor beside a manifest; returns the digest for its gate.

    ``shown``: the exact items that were equal, which the gate must list.
    """
    profile = DeviceProfile(platform="linux", sku="CPU", cards=0, arch="any", name="any")
    exact = tuple(ExactResult(name=name, status="equal", detail="") for name in shown)
    perfect = MeasurementResult(
        id="output.psnr_db.min", metric="psnr_db", aggregate="min", pixels="stored", unit="dB", direction="higher",
        value=Real("inf"), typical=Real("inf"), worst_item="000/0", values={"000/0": Real("inf")},
    )  # fmt: skip
    record = RunRecord(
        schema_version=1, run_id="earlier", case=case, base_case=case, variant=None, title=case, claim="native-parity",
        contract=contract, model_id="model", model_revision="0" * 40, weights="trained", purpose="run",
        started="2026-11-30T20:00:00Z", duration_s=1, attempt=1, in_ci=False, profile=profile, environment={}, legs=(),
        comparison=Comparison(exact=exact, measurements=(perfect,)),
        verdict=Verdict(status=Status.UNVALIDATED, reasons=(), scope="", gate="", gate_status="none"),
    )  # fmt: skip
    digest = store(folder, "evidence/earlier.json", dumps(record).encode())
    return evidence_digest([Evidence(folder, digest, record)])


class Parts:
    """The builders above, handed to tests as one fixture (test folders are no packages)."""

    size = SIZE
    build_case = staticmethod(build_case)
    build_items = staticmethod(build_items)
    build_leg = staticmethod(build_leg)
    effective = staticmethod(effective)
    measurement = staticmethod(measurement)
    npy_bytes = staticmethod(npy_bytes)
    picture = staticmethod(picture)
    store = staticmethod(store)
    write_evidence = staticmethod(write_evidence)
    write_leg = staticmethod(write_leg)


@pytest.fixture(scope="session")
def parts() -> type[Parts]:
    return Parts
