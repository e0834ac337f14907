"""What a leg gave -> a folder in the delivery format, as goldens keep it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paritygate.errors import GoldenError, MediaError
from paritygate.manifest.case import Item
from paritygate.media.paths import open_contained
from paritygate.records.codec import dumps
from paritygate.records.model import EFFECTIVE_NAME, OUTPUTS_FOLDER, Effective, LegRecord, OutputMedia
from paritygate.records.store import write_text_atomic

_CHUNK_BYTES = 1 << 20
#: How a file system says that another process was the first to take a name.
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)


def write_outputs(leg: LegRecord, source: Path, folder: Path, *, items: tuple[Item, ...], effective: Effective) -> None:
    """Copy the outputs of a leg to ``folder/outputs``, each held against its recorded digest.

    Args:
        leg: the leg as run; it wrote down its own outputs, so no name in it becomes a name of the golden.
        source: the leg's directory; its files are not trusted.
        folder: the golden's; it exists and is empty.
        items: the suite; what the leg gave besides is left out.
        effective: what took effect, without what only this machine knows.

    Raises:
        GoldenError: when a file is not the one that the leg recorded, or cannot be copied.
    """
    (folder / OUTPUTS_FOLDER).mkdir()
    given = {item.id: item for item in leg.items}
    for item_id in (item.id for item in items if item.id in given):
        target = folder / OUTPUTS_FOLDER / item_id
        target.mkdir()
        for index, image in enumerate(given[item_id].images):
            _copy(source, image.path, target / f"{index}.png", sha256=image.sha256)
            if image.float_path is not None:
                _copy(source, image.float_path, target / f"{index}.float.npy", sha256=str(image.float_sha256))
        counts: Counter[str] = Counter()
        for media in given[item_id].media:
            stem = f"{counts[media.role]}.{media.role}"
            counts[media.role] += 1
            _copy(source, media.path, target / f"{stem}{_ending(media.path)}", sha256=media.sha256)
            if rate := _rate(media):
                write_text_atomic(target / f"{stem}.json", json.dumps(rate) + "\n", durable=False)
    write_text_atomic(folder / OUTPUTS_FOLDER / EFFECTIVE_NAME, dumps(effective))


def _ending(path: str) -> str:
    ending = Path(path).suffix
    if not re.fullmatch(r"\.[a-z0-9]{1,12}", ending):
        raise GoldenError(f"the output {path!r:.120} has no ending that can be kept")
    return ending


def _rate(media: OutputMedia) -> dict[str, Any]:
    """What an array does not say itself."""
    if media.representation != "raw":
        return {}
    return {name: value for name in ("fps", "sample_rate_hz") if (value := getattr(media, name)) is not None}


def _copy(source: Path, relative: str, target: Path, *, sha256: str) -> None:
    digest = hashlib.sha256()
    try:
        with open_contained(source, relative) as stream, target.open("xb") as copy:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
    except MediaError as error:
        raise GoldenError(f"the output {relative} cannot be kept: {error.message}", hint="run it again") from error
    except OSError as error:
        raise GoldenError(f"cannot write {target}: {error.strerror or error}", hint="free space") from error
    if f"sha256:{digest.hexdigest()}" != sha256:
        raise GoldenError(f"the output {relative} is not the file that the leg recorded", hint="run it again")


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A new folder that takes the name ``target`` when the block ends well, and is gone when it does not.

    Raises:
        GoldenError: when it cannot be made, or ``target`` is there already: a golden is never written over.
    """
    staging: Path | None = None
    try:
        if os.path.lexists(target):
            raise GoldenError(f"{target} exists already; a golden is never written over")
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield staging
        staging.chmod(0o755)
        staging.rename(target)
    except OSError as error:
        if error.errno in _TAKEN:
            raise GoldenError(
                f"{target} was made meanwhile; a golden is never written over", hint="try again"
            ) from error
        raise GoldenError(
            f"cannot write {target}: {error.strerror or error}", hint="make the folder writable, or free space"
        ) from error
    finally:
        if staging is not None and staging.exists():
            shutil.rmtree(staging, ignore_errors=True)


def copy_golden(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """Copy the files of a verified golden to a new folder.

    Raises:
        GoldenError: when they cannot be written.
    """
    try:
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with (source / name).open("rb") as original, (target / name).open("xb") as copy:
                shutil.copyfileobj(original, copy)
                copy.flush()
                os.fsync(copy.fileno())
    except OSError as error:
        raise GoldenError(f"cannot copy to {target}: {error.strerror or error}", hint="free space") from error
