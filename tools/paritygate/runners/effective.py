"""``effective.json`` as something other than our worker writes it: every value of a known type and a bounded size."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paritygate.records.model import EFFECTIVE_SCHEMA_VERSION, Effect, Real

_Name = Annotated[str, Meta(min_length=1, max_length=200)]
#: The name of a counter becomes that of an argument.
_Counter = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^(?!(?:name|self)\Z)")]
_Text = Annotated[str, Meta(max_length=1 << 16)]
_Scalar = _Text | int | float | bool
_Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
_Token = Annotated[int, Meta(ge=-1, lt=1 << 32)]
_Row = Annotated[list[_Token], Meta(max_length=1 << 17)]
_Rows = Annotated[list[_Row], Meta(max_length=1 << 10)]

#: Steps of a schedule, and names in one part of the file.
MAX_STEPS = 1 << 17
_MAX_NAMES = 1 << 15


class Delivered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``records.model.Effective``, strict: a misspelt key would be a setting that nobody compares."""

    schema_version: int = EFFECTIVE_SCHEMA_VERSION
    settings: Annotated[dict[_Name, _Scalar | None], Meta(max_length=_MAX_NAMES)] = {}
    token_ids: Annotated[dict[_Name, _Rows], Meta(max_length=_MAX_NAMES)] = {}
    timesteps: Annotated[list[int | float], Meta(max_length=MAX_STEPS)] | None = None
    sigmas: Annotated[list[Real], Meta(max_length=MAX_STEPS)] | None = None
    initial_latents: Annotated[dict[_Name, _Digest], Meta(max_length=_MAX_NAMES)] = {}
    features: Annotated[
        dict[_Name, Annotated[dict[_Counter, _Scalar], Meta(max_length=_MAX_NAMES)]], Meta(max_length=_MAX_NAMES)
    ] = {}
    environment: Annotated[dict[_Name, Any], Meta(max_length=_MAX_NAMES)] = {}
    effects: Annotated[dict[_Name, Effect], Meta(max_length=_MAX_NAMES)] = {}
    pending: Annotated[tuple[_Name, ...], Meta(max_length=_MAX_NAMES)] = ()
