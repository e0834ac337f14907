"""NumPy's ``.npy`` and ``.npz`` files as tensors. Nothing is unpickled, extracted or inflated beyond limits."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import numpy as np

from paritygate.errors import MediaError
from paritygate.media.npy import MAX_HEADER_BYTES, Header, read_header
from paritygate.media.tensor_data import DTYPES, RAW_BITS, UNNAMED, Bytes, Tensor, map_file, placed

#: All compressed arrays of one file together.
MAX_INFLATED_BYTES = 2 << 30
#: An array that is larger must not be packed tighter than ``MAX_INFLATION``: that is a bomb, or a lot of zeros.
FREELY_INFLATED_BYTES = 64 << 20
MAX_INFLATION = 100

_DESCR = MappingProxyType({dtype.str: name for name, dtype in DTYPES.items() if name not in RAW_BITS})
# What NumPy writes for types it does not know, and for raw bits.
_BITS = MappingProxyType({"<V2": 2, "|V2": 2, "<u2": 2, "<V1": 1, "|V1": 1, "|u1": 1})
_ZIP_ERRORS = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npy(path: Path, *, dtype: str | None) -> list[Tensor]:
    """The array of a ``.npy`` file, mapped.

    Args:
        path: the file.
        dtype: declares what raw bits are, for ``bfloat16`` and ``float8``, which the format cannot say.

    Raises:
        MediaError: for pickles and other dtypes, and when the header promises more or less than the file holds.
    """
    return [_tensor(map_file(path), declared=dtype, name=UNNAMED, label=str(path))]


def read_npz(path: Path, *, dtype: str | None) -> list[Tensor]:
    """The arrays of a ``.npz`` file: stored ones mapped, compressed ones in memory; check sums are verified.

    Args:
        path: the file.
        dtype: as ``read_npy``.

    Raises:
        MediaError: as ``read_npy``, for members that are no arrays or have names that lead elsewhere, and for
            decompression bombs, before they are inflated.
    """
    data = map_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(members, size=data.size, name=str(path))
            return [_member(archive, data, member, declared=dtype, name=str(path)) for member in members]
    except _ZIP_ERRORS as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise MediaError(f"{path}: truncated or damaged .npz file ({text:.80})", kind="unreadable") from error


def _member(
    archive: zipfile.ZipFile, data: Bytes, member: zipfile.ZipInfo, *, declared: str | None, name: str
) -> Tensor:
    label = f"{name}: {member.filename!r:.80}"
    stored = member.compress_type == zipfile.ZIP_STORED
    content = _stored(data, member) if stored else _inflated(archive, member, label=label)
    return _tensor(content, declared=declared, name=member.filename.removesuffix(".npy"), label=label)


def _tensor(data: Bytes, *, declared: str | None, name: str, label: str) -> Tensor:
    header = read_header(data[:MAX_HEADER_BYTES].tobytes(), name=label)
    dtype = _dtype(header, declared=declared, label=label)
    array = placed(data[header.start :], dtype=dtype, shape=header.shape, order=header.order, name=label)
    return Tensor(name=name, array=array, dtype=dtype)


def _dtype(header: Header, *, declared: str | None, label: str) -> str:
    descr = header.descr if isinstance(header.descr, str) else ""
    if declared in RAW_BITS and _BITS.get(descr) == DTYPES[declared].itemsize:
        return declared
    if descr not in _DESCR:
        hint = f"declare the dtype of its bits: {', '.join(sorted(RAW_BITS))}" if descr in _BITS else ""
        text = f"{label}: dtype {header.descr!r:.40}, expected little-endian numbers or booleans"
        raise MediaError(text, kind="format", hint=hint)
    return _DESCR[descr]


def _check_members(members: list[zipfile.ZipInfo], *, size: int, name: str) -> None:
    """Refuse what no program that saves arrays writes, from the directory of the archive alone.

    Raises:
        MediaError: naming the first member that is wrong.
    """
    if not members:
        raise MediaError(f"{name}: holds no arrays", kind="unreadable")
    if len({member.filename for member in members}) != len(members):
        raise MediaError(f"{name}: two arrays have one name", kind="unreadable")
    for member in members:
        label = f"{name}: {member.filename!r:.80}"
        parts = PurePosixPath(member.filename).parts
        if (
            member.filename.startswith("/")
            or ".." in parts
            or "\\" in member.orig_filename
            or "\0" in member.orig_filename
        ):
            raise MediaError(f"{label} is not a plain name", kind="path")
        if not member.filename.endswith(".npy"):
            raise MediaError(f"{label} is not a .npy array", kind="format")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise MediaError(f"{label} is encrypted or packed in a way that NumPy does not write", kind="format")
        if member.file_size > max(FREELY_INFLATED_BYTES, MAX_INFLATION * member.compress_size):
            text = f"{label} would grow from {member.compress_size} to {member.file_size} bytes: a decompression bomb"
            raise MediaError(text, kind="size", hint="save arrays of that size uncompressed, with numpy.savez")
    stored = sum(member.compress_size for member in members)
    inflated = sum(member.file_size for member in members if member.compress_type != zipfile.ZIP_STORED)
    if stored > size:
        raise MediaError(f"{name}: its members claim {stored} of {size} bytes", kind="unreadable")
    if inflated > MAX_INFLATED_BYTES:
        text = f"{name}: would grow to {inflated} bytes, at most {MAX_INFLATED_BYTES} are inflated"
        raise MediaError(text, kind="size", hint="save the arrays uncompressed, with numpy.savez")


def _stored(data: Bytes, member: zipfile.ZipInfo) -> Bytes:
    """The bytes of an uncompressed member, in place."""
    # The local header repeats the name and may have other extra fields than the directory.
    head = data[member.header_offset : member.header_offset + 30].tobytes()
    if len(head) < 30 or not head.startswith(b"PK\x03\x04"):
        raise ValueError("a member is not where the directory says")
    name, extra = struct.unpack("<HH", head[26:])
    start = member.header_offset + 30 + name + extra
    # Members of different names then cannot share their bytes.
    if data[member.header_offset + 30 :][:name].tobytes() != _encoded_name(member):
        raise ValueError("a member has another name than the directory says")
    content = data[start : start + member.file_size]
    if member.file_size != member.compress_size or content.size != member.file_size:
        raise ValueError("a member is cut off")
    if zlib.crc32(content.data) != member.CRC:
        raise ValueError("bad check sum")
    return content


def _encoded_name(member: zipfile.ZipInfo) -> bytes:
    return member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")


def _inflated(archive: zipfile.ZipFile, member: zipfile.ZipInfo, *, label: str) -> Bytes:
    """The bytes of a compressed member, when it begins like an array."""
    with archive.open(member) as stream:
        head = stream.read(MAX_HEADER_BYTES)
        read_header(head, name=label)
        # Memory is taken from the system only as it is filled, so a false promise costs nothing.
        content = np.empty(member.file_size, np.uint8)
        filled, block = 0, head
        while block:
            content[filled : filled + len(block)] = np.frombuffer(block, np.uint8)
            filled += len(block)
            block = stream.read(1 << 20)
        if filled != content.size:
            raise ValueError("a member is cut off")
    return content
