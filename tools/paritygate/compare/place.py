"""One output of one request on both sides, and why a side cannot take part."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from paritygate.errors import MediaError
from paritygate.manifest.case import Output
from paritygate.media.paths import contained
from paritygate.records.canonical import sha256_file
from paritygate.records.model import Finding, OutputItem, OutputMedia

_T = TypeVar("_T")
#: Setting -> its value on both sides, for each pair of files that has it.
Stored = dict[str, list[tuple[str, str]]]

#: A larger file of a clip or of tensors is refused before its digest is computed.
MAX_MEDIA_BYTES = 64 << 30


class Refused(Exception):  # noqa: N818 - a signal inside this room, not an error of the user
    """One side, or a pair, cannot take part; ``code`` and ``message`` are those of the finding."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Side:
    """What one leg gave for a request. ``directory`` is the leg's; its files are not trusted."""

    leg: str
    directory: Path
    item: OutputItem

    def media(self, role: str, index: int) -> OutputMedia:
        """The output number ``index`` of a role; the structure was checked before."""
        return [entry for entry in self.item.media if entry.role == role][index]

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Let what is refused inside say which leg and item it is about."""
        try:
            yield
        except (MediaError, Refused) as error:
            code = error.code if isinstance(error, Refused) else error.kind
            raise Refused(code, f"the {self.leg} leg, item {self.item.id}: {error.message}") from error


@dataclass(frozen=True, kw_only=True)
class Place:
    """Output number ``index`` of one request, as declared, with both sides.

    ``stored`` gets how the files of this pair are stored: setting -> its value on both sides.
    """

    output: Output
    index: int
    reference: Side
    candidate: Side
    stored: Stored = field(default_factory=dict)

    @property
    def item(self) -> str:
        """The id of the suite item."""
        return self.reference.item.id

    @property
    def key(self) -> str:
        """``<item>/<index>``."""
        return f"{self.item}/{self.index}"

    @property
    def sides(self) -> tuple[Side, Side]:
        """Reference and candidate."""
        return self.reference, self.candidate

    def load(self, load: Callable[[Side], _T]) -> tuple[list[_T], list[Finding]]:
        """What ``load`` gives for each side, and a finding for each side that it refuses."""
        loaded: list[_T] = []
        findings = [found for side in self.sides if (found := self._attempt(load, side, loaded))]
        return loaded, findings

    def _attempt(self, load: Callable[[Side], _T], side: Side, loaded: list[_T]) -> Finding | None:
        try:
            with side.named():
                loaded.append(load(side))
        except Refused as refusal:
            return self.finding(refusal)
        return None

    def finding(self, refusal: Refused) -> Finding:
        """The finding that a refusal is."""
        return Finding(code=refusal.code, message=refusal.message, item=self.item)


def verified_file(side: Side, media: OutputMedia, output: Output) -> Path:
    """The file of a clip, a sound or tensors, when it is the recorded one and of the declared representation.

    Raises:
        MediaError: as ``contained``, and for a file that has another name too.
        Refused: for another digest, another representation, or a file that is too large.
    """
    if media.role != "tensors" and media.representation != output.compared_as:
        declared = f"the case compares {output.compared_as} ones (output.representation)"
        raise Refused("representation", f"{media.path} is {media.representation}, {declared}; nothing is converted")
    path = contained(side.directory, media.path)
    try:
        status = path.stat()
        if status.st_nlink > 1:
            raise Refused("path", f"{media.path} has more than one name (hard link); outputs are files of their own")
        if status.st_size > MAX_MEDIA_BYTES:
            raise Refused("size", f"{media.path} has more than the {MAX_MEDIA_BYTES} bytes allowed")
        found = sha256_file(path)
    except OSError as error:
        raise MediaError(f"{media.path}: {error.strerror or error}", kind="unreadable") from error
    if found != media.sha256:
        raise Refused(
            "digest", f"{media.path} is not the file that the leg recorded ({found[:19]}, not {media.sha256[:19]})"
        )
    return path
