"""How much of a denoiser really ran: the evidence of a cache, whatever its algorithm skips."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

#: Layers that do the work; a cache skips the blocks, or the parts of blocks, that they are in.
LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
#: Calls that are listed one by one.
_LISTED = 200


class WorkCounter:
    """Counts layer calls within each call of the denoisers, a layer call for each row of its batch.

    Layers are counted, not blocks: hooks of a cache replace the forward of a block, so that it seems to run when it is
    skipped. The first call of a denoiser computes everything, because its cache is empty then.
    """

    def __init__(self, denoisers: Mapping[str, Any]) -> None:
        self._denoisers = denoisers
        self._running = 0
        self._calls: dict[str, list[int]] = {name: [] for name in denoisers}

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Count during one pipeline call."""
        with contextlib.ExitStack() as stack:
            for name, denoiser in self._denoisers.items():
                for layer in denoiser.modules():
                    if isinstance(layer, LAYERS):
                        stack.callback(layer.register_forward_hook(self._on_layer).remove)
                stack.callback(denoiser.register_forward_pre_hook(self._on_begin).remove)
                stack.callback(denoiser.register_forward_hook(self._on_end(name)).remove)
            yield

    def _on_layer(self, _module: Any, _args: Any, output: Any) -> None:
        self._running += len(output) if isinstance(output, torch.Tensor) and output.ndim else 1

    def _on_begin(self, _module: Any, _args: Any) -> None:
        self._running = 0

    def _on_end(self, name: str) -> Any:
        def on_end(_module: Any, _args: Any, _output: Any) -> None:
            self._calls[name].append(self._running)

        return on_end

    @property
    def counters(self) -> dict[str, int | float | str]:
        """``cache_hits``: denoiser calls that computed less than the first; ``skipped_layers``: what they left out.

        ``computed_percent`` lists the share of layers that each call computed, first call first. Empty when there was
        no denoiser to count.
        """
        if not self._calls:
            return {}
        shares = [(calls[0], ran) for calls in self._calls.values() for ran in calls]
        whole, ran = sum(full for full, _ in shares), sum(done for _, done in shares)
        listed = ", ".join(f"{100 * done / full:.0f}" if full else "0" for full, done in shares[:_LISTED])
        return {
            "denoiser_calls": len(shares),
            "cache_hits": sum(done < full for full, done in shares),
            "layers": whole,
            "skipped_layers": max(0, whole - ran),
            "computed_percent": listed,
        }
