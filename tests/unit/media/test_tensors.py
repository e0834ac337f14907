"""Tensor files: read as declared, mapped, or refused with one reason. Hostile ones run, inflate and reach nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.errors import MediaError
from paritygate.media import npz
from paritygate.media.tensors import DTYPES, RAW_BITS, SUFFIXES, UNNAMED, read_tensors, sidecars

VALUES = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 4, 3)
PLAIN = sorted(set(DTYPES) - RAW_BITS)
SAFE = {
    "bfloat16": "BF16",
    "bool": "BOOL",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    **{
        f"{sign}int{bits}": f"{sign.upper() or ''}{'' if sign else 'I'}{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}


def array_of(dtype):
    return np.arange(24).reshape(2, 4, 3).astype(DTYPES[dtype])


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def safetensors(header, body=b"", *, size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + body


def entry(dtype="F32", shape=(2, 4, 3), offsets=(0, 96)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def packed(members, *, method=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.fixture
def read(tmp_path):
    """Write these bytes under a name and read them back as tensors."""

    def run(name, data, **declared):
        path = tmp_path / name
        path.write_bytes(data)
        return read_tensors(path, **declared)

    return run


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_is_read_from_safetensors_bit_for_bit_and_mapped(dtype, read):
    array = array_of(dtype)
    header = {"__metadata__": {"format": "pt"}, "a.weight": entry(SAFE[dtype], array.shape, (0, array.nbytes))}
    tensor = read("x.safetensors", safetensors(header, array.tobytes()))["a.weight"]
    assert (tensor.name, tensor.dtype, tensor.shape) == ("a.weight", dtype, (2, 4, 3))
    assert tensor.array.dtype == DTYPES[dtype]
    assert np.array_equal(tensor.array, array)
    assert not tensor.array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.array[0, 0, 0] = 1


@pytest.mark.parametrize("dtype", PLAIN)
def test_every_dtype_of_numpy_is_read_from_npy_and_npz(dtype, read):
    array = array_of(dtype)
    (tensor,) = read("x.npy", npy(array)).values()
    assert (tensor.name, tensor.dtype) == (UNNAMED, dtype)
    assert isinstance(tensor.array, np.memmap)
    buffers = io.BytesIO(), io.BytesIO()
    np.savez(buffers[0], array, **{"block/1": array[:1]})
    np.savez_compressed(buffers[1], array, **{"block/1": array[:1]})
    for buffer in buffers:
        tensors = read("x.npz", buffer.getvalue())
        assert {name: found.shape for name, found in tensors.items()} == {"block/1": (1, 4, 3), "arr_0": (2, 4, 3)}
        for found in (tensor, tensors["arr_0"]):
            assert found.dtype == dtype
            assert np.array_equal(found.array, array)
            assert not found.array.flags.writeable


def test_raw_values_are_read_as_declared_or_as_a_sidecar_says(tmp_path, read):
    raw = VALUES.tobytes()
    (declared,) = read("x.bin", raw, dtype="float32", shape=(2, 4, 3)).values()
    assert np.array_equal(declared.array, VALUES)
    assert isinstance(declared.array, np.memmap)
    for sidecar in sidecars(tmp_path / "x.bin"):
        sidecar.write_text('{"dtype": "bfloat16", "shape": [6, 8]}')
        (described,) = read("x.bin", raw).values()
        assert (described.dtype, described.shape) == ("bfloat16", (6, 8))
        sidecar.unlink()


def test_arrays_in_fortran_order_and_scalars_keep_their_meaning(read):
    assert np.array_equal(read("f.npy", npy(np.asfortranarray(VALUES)))[UNNAMED].array, VALUES)
    assert read("s.npy", npy(np.float32(3)))[UNNAMED].shape == ()
    assert read("s.safetensors", safetensors({"s": entry(shape=(), offsets=(0, 4))}, b"\0" * 4))["s"].shape == ()


def test_bits_that_numpy_cannot_name_are_read_when_their_dtype_is_declared(read):
    bits = np.arange(6, dtype=np.uint16)
    for data in (npy(bits), npy(bits.view("V2"))):
        assert read("x.npy", data, dtype="bfloat16")[UNNAMED].dtype == "bfloat16"
    with pytest.raises(MediaError, match=r"dtype '[<|]V2'") as caught:
        read("x.npy", npy(bits.view("V2")))
    assert "bfloat16" in caught.value.hint
    assert read("x.npy", npy(bits.view(np.uint8)), dtype="float8_e5m2")[UNNAMED].shape == (12,)


def test_values_that_do_not_begin_at_an_address_of_their_size_are_moved(read):
    header = {"a": entry("U8", [3], (0, 3)), "b": entry(offsets=(3, 99))}
    tensor = read("x.safetensors", safetensors(header, b"\1\2\3" + VALUES.tobytes()))["b"]
    assert tensor.array.flags.aligned
    assert np.array_equal(tensor.array, VALUES)


def test_names_that_python_cannot_use_as_paths_are_kept(read):
    names = ["../../etc/passwd", "a\0b", "\x1b[31m", ""]
    header = {name: entry("U8", [1], (place, place + 1)) for place, name in enumerate(names)}
    assert sorted(read("x.safetensors", safetensors(header, b"\1\2\3\4"))) == sorted(names)


def many_claims():
    """A directory in which every member is the same bytes."""
    data = packed({"a.npy": npy(VALUES), "b.npy": npy(VALUES)})
    first, second = (place for place in range(len(data)) if data[place : place + 4] == b"PK\1\2")
    offset = slice(second + 42, second + 46)
    return data[: offset.start] + data[first + 42 : first + 46] + data[offset.stop :]


def patched(data, old, new):
    assert old in data
    return data.replace(old, new)


WHOLE = safetensors({"a": entry()}, VALUES.tobytes())
NPZ = packed({"a.npy": npy(VALUES)})
DIRECTORY = NPZ.index(b"PK\1\2")
ZIPPED = packed({"a.npy": npy(np.zeros(9000))}, method=zipfile.ZIP_DEFLATED)
SAFE_FAULTS = {
    "empty": (b"", "the file is empty"),
    "short": (b"\1\2", "cut off"),
    "length-only": (struct.pack("<Q", 8), "cut off"),
    "huge-header": (safetensors({}, size=2**63), "cut off or too long"),
    "long-header": (safetensors(b"{" + b" " * (17 << 20)), "cut off or too long"),
    "not-json": (safetensors(b"{'a': 1}"), "not a .safetensors"),
    "not-utf-8": (safetensors(b'{"\xff": 1}'), "not a .safetensors"),
    "list": (safetensors([1]), "no JSON object"),
    "deep": (safetensors(b"[" * 100_000), "not a .safetensors"),
    "twice": (safetensors(b'{"a": {}, "a": {}}'), "twice"),
    "no-fields": (safetensors({"a": {}}), "not a .safetensors"),
    "text": (safetensors({"a": "x"}), "not a .safetensors"),
    "none": (safetensors({}), "holds no tensors"),
    "metadata-only": (safetensors({"__metadata__": {"a": "b"}}), "holds no tensors"),
    "unknown-dtype": (safetensors({"a": entry("F4")}, VALUES.tobytes()), "dtype 'F4' is not supported"),
    "dtype-is-a-list": (safetensors({"a": entry(["F32"])}, VALUES.tobytes()), "not a .safetensors"),
    "negative-offset": (safetensors({"a": entry(offsets=(-4, 92))}, VALUES.tobytes()), "no positions"),
    "float-offset": (safetensors({"a": entry(offsets=(0, 96.0))}, VALUES.tobytes()), "no positions"),
    "backward": (safetensors({"a": entry(offsets=(96, 0))}, VALUES.tobytes()), "no positions"),
    "one-offset": (safetensors({"a": entry(offsets=[96])}, VALUES.tobytes()), "not a .safetensors"),
    "beyond-the-end": (
        safetensors({"a": entry(shape=(9, 4, 3), offsets=(0, 432))}, VALUES.tobytes()),
        "0 to 432 of 96",
    ),
    "shape-too-large": (safetensors({"a": entry(shape=(2, 4, 4))}, VALUES.tobytes()), "its shape takes 128"),
    "negative-shape": (safetensors({"a": entry(shape=(-2, -4, 3))}, VALUES.tobytes()), "positive integers"),
    "float-shape": (safetensors({"a": entry(shape=(2.0, 4, 3))}, VALUES.tobytes()), "positive integers"),
    "bool-shape": (safetensors({"a": entry(shape=(True, 24))}, VALUES.tobytes()), "positive integers"),
    "text-shape": (safetensors({"a": entry(shape="24")}, VALUES.tobytes()), "positive integers"),
    "many-axes": (safetensors({"a": entry(shape=[1] * 60 + [24])}, VALUES.tobytes()), "at most 32"),
    "endless-shape": (safetensors({"a": entry(shape=[10**300, 24])}, VALUES.tobytes()), "its shape takes"),
    "no-values": (safetensors({"a": entry(shape=(0, 3), offsets=(0, 0))}), "positive integers"),
    "overlap": (safetensors({"a": entry(), "b": entry()}, VALUES.tobytes()), "begins at byte 0, expected 96"),
    "gap": (safetensors({"a": entry(offsets=(4, 100))}, b"\0" * 4 + VALUES.tobytes()), "begins at byte 4, expected 0"),
    "trailing": (WHOLE + b"\0", "1 bytes after the last tensor"),
    "truncated": (WHOLE[:-1], "0 to 96 of 95"),
    "pickle": (pickle.dumps({"a": 1}), "not a .safetensors"),
    "npy": (npy(VALUES), "not a .safetensors"),
}
NPY_FAULTS = {
    "empty": (b"", "the file is empty"),
    "pickle": (pickle.dumps([1]), "not a .npy file"),
    "objects": (npy(np.array([{}], dtype=object), allow_pickle=True), r"dtype '\|O'"),
    "structured": (npy(np.zeros(3, [("a", "<f4")])), "expected little-endian numbers"),
    "text": (npy(np.array(["a"])), "dtype '<U1'"),
    "complex": (npy(np.zeros(3, np.complex64)), "dtype '<c8'"),
    "dates": (npy(np.zeros(3, "M8[s]")), "dtype '<M8"),
    "big-endian": (npy(VALUES.astype(">f4")), "little-endian"),
    "no-values": (npy(VALUES[:0]), "positive integers"),
    "truncated": (npy(VALUES)[:-4], r"holds 92 bytes, float32 \(2, 4, 3\) takes 96"),
    "trailing": (npy(VALUES) + b"\0", "holds 97 bytes"),
    "huge-claim": (patched(npy(VALUES), b"(2, 4, 3), }  ", b"(2, 4, 399), }"), "takes 12768"),
    "endless-claim": (npy(VALUES).replace(b"3), }" + b" " * 30, b"3" + b"0" * 28 + b"), }  "), "holds 96 bytes"),
    "zip": (NPZ, "not a .npy file"),
}
NPZ_FAULTS = {
    "empty": (b"", "the file is empty"),
    "npy": (npy(VALUES), "truncated or damaged .npz"),
    "no-members": (packed({}), "holds no arrays"),
    "pickle-inside": (packed({"a.npy": pickle.dumps([1])}), "not a .npy file"),
    "objects-inside": (packed({"a.npy": npy(np.array([{}], dtype=object), allow_pickle=True)}), r"dtype '\|O'"),
    "other-member": (packed({"a.npy": npy(VALUES), "evil.pkl": b"x"}), "'evil.pkl' is not a .npy array"),
    "parent": (packed({"../a.npy": npy(VALUES)}), "not a plain name"),
    "absolute": (packed({"/etc/a.npy": npy(VALUES)}), "not a plain name"),
    "backslash": (packed({"..\\a.npy": npy(VALUES)}), "not a plain name"),
    "cut-name": (patched(packed({"a.npyXb.npy": npy(VALUES)}), b"a.npyX", b"a.npy\0"), "not a plain name"),
    "one-name-twice": (patched(packed({"a.npy": npy(VALUES), "b.npy": npy(VALUES)}), b"b.npy", b"a.npy"), "one name"),
    "lzma": (packed({"a.npy": npy(VALUES)}, method=zipfile.ZIP_LZMA), "packed in a way"),
    "encrypted": (NPZ[: DIRECTORY + 8] + b"\1" + NPZ[DIRECTORY + 9 :], "encrypted"),
    "truncated": (NPZ[:-30], "truncated or damaged .npz"),
    "flipped-stored": (NPZ[:160] + bytes([NPZ[160] ^ 1]) + NPZ[161:], "check sum"),
    "flipped-packed": (ZIPPED[:60] + bytes([ZIPPED[60] ^ 4]) + ZIPPED[61:], "truncated or damaged .npz|not a .npy"),
    "overlapping": (many_claims(), "truncated or damaged .npz"),
    "directory": (packed({"a/": b""}), "is not a .npy array"),
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (suffix, fault)
        for suffix, table in ((".safetensors", SAFE_FAULTS), (".npy", NPY_FAULTS), (".npz", NPZ_FAULTS))
        for fault in table
    ],
)
def test_a_hostile_or_damaged_file_gives_one_clear_error(name, fault, read):
    table = {".safetensors": SAFE_FAULTS, ".npy": NPY_FAULTS, ".npz": NPZ_FAULTS}[name]
    data, message = table[fault]
    with pytest.raises(MediaError, match=message) as caught:
        read(f"x{name}", data)
    assert f"x{name}" in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600


def bomb(*, inflated, members=1):
    """A packed array of zeros that says how large it is, without ever making it."""
    header = npy(np.zeros(0)).replace(b"(0,), }" + b" " * 12, f"({inflated // 8},), }}".ljust(19).encode())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(members):
            with archive.open(f"{index}.npy", "w") as stream:
                stream.write(header)
                for _ in range(inflated >> 20):
                    stream.write(b"\0" * (1 << 20))
    return buffer.getvalue()


def test_a_decompression_bomb_is_refused_before_it_is_inflated(read, monkeypatch):
    monkeypatch.setattr(npz, "FREELY_INFLATED_BYTES", 2 << 20)
    data = bomb(inflated=8 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(MediaError, match="a decompression bomb") as caught:
            read("x.npz", data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind == "size"
    assert peak < 1 << 20


def test_many_packed_arrays_are_limited_together(read, monkeypatch):
    monkeypatch.setattr(npz, "MAX_INFLATED_BYTES", 3 << 20)
    data = bomb(inflated=1 << 20, members=4)
    with pytest.raises(MediaError, match=f"would grow to .* at most {3 << 20}"):
        read("x.npz", data)
    monkeypatch.setattr(npz, "MAX_INFLATED_BYTES", 5 << 20)
    assert len(read("x.npz", data)) == 4


def test_a_member_that_claims_more_than_it_holds_fills_no_memory(read):
    data = packed({"a.npy": npy(np.arange(3000))}, method=zipfile.ZIP_DEFLATED)
    size = struct.pack("<I", len(npy(np.arange(3000))))
    with pytest.raises(MediaError, match="truncated or damaged"):
        read("x.npz", patched(data, size, struct.pack("<I", 60 << 20)))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors", "x.bin", "x.pt"])
def test_a_name_that_leads_to_no_plain_file_is_refused_at_once(name, tmp_path):
    with pytest.raises(MediaError, match="No such file"):
        read_tensors(tmp_path / name, **({"dtype": "uint8", "shape": (1,)} if name == "x.bin" else {}))
    os.mkfifo(tmp_path / name)
    with pytest.raises(MediaError, match="not a regular file"):
        read_tensors(tmp_path / name, **({"dtype": "uint8", "shape": (1,)} if name == "x.bin" else {}))


def test_a_folder_and_an_unknown_ending_are_refused(tmp_path):
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(MediaError, match="Is a directory"):
        read_tensors(tmp_path / "d.npy")
    with pytest.raises(MediaError, match=r"end in \.bin, \.npy, \.npz, \.pt, \.pth, \.safetensors"):
        read_tensors(tmp_path / "x.pickle")
    assert list(SUFFIXES) == sorted(SUFFIXES)


BIN_FAULTS = {
    "nothing-declared": ({}, None, "nothing declares their dtype and shape"),
    "no-shape": ({"dtype": "float32"}, None, "nothing declares their shape"),
    "unknown-dtype": ({"dtype": "float", "shape": (24,)}, None, "dtype 'float' is not known"),
    "too-short": ({"dtype": "float32", "shape": (25,)}, None, "holds 96 bytes"),
    "too-long": ({"dtype": "float32", "shape": (23,)}, None, "holds 96 bytes"),
    "negative": ({"dtype": "float32", "shape": (-24, -1)}, None, "positive integers"),
    "contradiction": ({"dtype": "float16"}, {"dtype": "float32", "shape": [24]}, "says float32"),
    "sidecar-more": ({}, {"dtype": "float32", "shape": [24], "order": "F"}, "no object of dtype and shape"),
    "sidecar-less": ({}, {"dtype": "float32"}, "no object of dtype and shape"),
    "sidecar-dtype": ({}, {"dtype": "f4", "shape": [24]}, "dtype 'f4'"),
    "sidecar-list-dtype": ({}, {"dtype": ["float32"], "shape": [24]}, "describes no raw values"),
    "sidecar-shape": ({}, {"dtype": "float32", "shape": 24}, "the shape is a list"),
    "sidecar-float": ({}, {"dtype": "float32", "shape": [24.0]}, "positive integers"),
    "sidecar-list": ({}, [1], "no object"),
}


@pytest.mark.parametrize("fault", BIN_FAULTS)
def test_raw_values_without_one_clear_declaration_are_refused(fault, tmp_path, read):
    declared, sidecar, message = BIN_FAULTS[fault]
    if sidecar is not None:
        (tmp_path / "x.bin.json").write_text(json.dumps(sidecar))
    with pytest.raises(MediaError, match=message):
        read("x.bin", VALUES.tobytes(), **declared)


def test_two_sidecars_are_one_too_many(tmp_path, read):
    for sidecar in sidecars(tmp_path / "x.bin"):
        sidecar.write_text('{"dtype": "float32", "shape": [24]}')
    with pytest.raises(MediaError, match="described by both"):
        read("x.bin", VALUES.tobytes())


def test_a_declaration_that_the_file_contradicts_is_refused(read):
    with pytest.raises(MediaError, match="has dtype float32, float64 is declared"):
        read("x.npy", npy(VALUES), dtype="float64")
    with pytest.raises(MediaError, match="has dtype float32, bfloat16 is declared"):
        read("x.safetensors", WHOLE, dtype="bfloat16")
    with pytest.raises(MediaError, match=r"has shape \(2, 4, 3\), \(24,\) is declared"):
        read("x.npy", npy(VALUES), shape=(24,))
    assert read("x.npy", npy(VALUES), dtype="float32", shape=(2, 4, 3))


def test_the_real_libraries_write_what_is_read(tmp_path):
    writer = pytest.importorskip("safetensors.numpy")
    writer.save_file({"b": VALUES, "a": np.arange(5, dtype=np.int8)}, tmp_path / "x.safetensors")
    tensors = read_tensors(tmp_path / "x.safetensors")
    assert np.array_equal(tensors["b"].array, VALUES)
    assert np.array_equal(tensors["a"].array, np.arange(5))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_flipping_and_cutting_bytes_of_any_file_ends_in_values_or_in_one_error(data, tmp_path_factory):
    name, whole = data.draw(
        st.sampled_from([("x.npy", npy(VALUES)), ("x.safetensors", WHOLE), ("x.npz", NPZ), ("x.npz", ZIPPED)])
    )
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    for place in data.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=3)):
        damaged[place : place + 1] = bytes([data.draw(st.integers(0, 255))])
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(damaged)
    message = name
    try:
        tensors = read_tensors(path)
    except MediaError as error:
        message, tensors = error.message, {}
    assert name in message
    assert all(tensor.array.nbytes <= 9000 * 8 for tensor in tensors.values())
