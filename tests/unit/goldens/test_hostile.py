"""A golden whose list or folder lies: one error that says everything, and no skip."""

import json
import subprocess
import sys

import msgspec
import pytest

from paritygate.errors import GoldenError
from paritygate.goldens.needed import resolve, resolve_for
from paritygate.goldens.store import Ref, local, read_golden, ref_of
from paritygate.manifest.case import Component, TensorInput
from paritygate.records.golden import MAX_GOLDEN_BYTES, parse_golden

FILE = "outputs/000/0.tensors.npz"


@pytest.fixture
def folder(plain, make):
    make.golden(plain.root / "goldens/demo/v1")
    return plain.root / "goldens/demo/v1"


def data_of(folder):
    return json.loads((folder / "golden.json").read_text())


def with_files(folder, make, change):
    data = data_of(folder)
    change(data["files"])
    return make.rewrite(folder, data)


ENTRY = {"sha256": "sha256:" + "0" * 64, "size": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.update({"/etc/passwd": ENTRY}), "'/etc/passwd' is not a plain relative path"),
        (lambda files: files.update({"../../../paritygate.yaml": ENTRY}), "is not a plain relative path"),
        (lambda files: files.update({FILE.upper(): ENTRY}), "are one name"),
        (lambda files: files.update({"golden.json": ENTRY}), "is the list itself"),
        (lambda files: files.update({"outputs/001/0.png": ENTRY}), "outputs/001/0.png is missing"),
        (lambda files: files[FILE].update(size=201), "has 200 bytes, the list says 201"),
        (lambda files: files[FILE].update(sha256=ENTRY["sha256"]), f"{FILE} was altered"),
        (lambda files: files[FILE].update(size=1 << 60), "Expected `int` <="),
        (lambda files: files[FILE].update(size=-1), "Expected `int` >= 0"),
        (lambda files: files[FILE].update(sha256="md5:1"), "Expected `str` matching regex"),
        (lambda files: files[FILE].update(mode="0777"), "unknown field `mode`"),
        (lambda files: files.pop(FILE), f"{FILE} is there and not in the list"),
        (lambda files: files.clear(), "it lists no files"),
    ],
)
def test_a_list_that_lies_is_one_error(folder, make, plain, change, message):
    ref = with_files(folder, make, change)
    with pytest.raises(GoldenError) as caught:
        resolve(plain.project, ref)
    assert message in caught.value.message
    assert caught.value.hint


def test_one_error_tells_everything(folder, make, plain):
    ref = make.rewrite(folder, data_of(folder))
    (folder / FILE).write_bytes(bytes(200))
    (folder / "outputs/effective.json").unlink()
    (folder / "stray").write_bytes(b"")
    with pytest.raises(GoldenError) as caught:
        resolve(plain.project, ref)
    for part in ("stray is there", f"{FILE} was altered", "outputs/effective.json is missing"):
        assert part in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 1, "schema_version": 1}', "the key 'schema_version' stands twice"),
        ('{"files": {"a": 1, "a": 2}}', "the key 'a' stands twice"),
        ("[" * 200_000, "is not strict JSON"),
        ('{"schema_version": 2, "later": true}', "this version reads up to 1"),
        ('{"schema_version": 1}', "missing required field"),
        ('{"schema_version": NaN}', "NaN is no number of JSON"),
        ("1" * 10_000, "is not strict JSON"),
        ("\ud800", "is not strict JSON"),
        ("", "is not strict JSON"),
        (" " * (MAX_GOLDEN_BYTES + 1), "more than the 8 MiB"),
    ],
)
def test_a_list_that_is_no_list_is_refused(text, message):
    with pytest.raises(GoldenError, match=message):
        parse_golden(text.encode("utf-8", "surrogatepass"), source="golden.json")


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "", "A", "x" * 101, "a\n", ".x", "x.", "-", "x\0"])
def test_a_name_that_is_no_folder_is_refused(name):
    with pytest.raises(GoldenError, match="is no name of a golden"):
        ref_of({"name": name, "version": 1, "digest": "sha256:" + "0" * 64})


@pytest.mark.parametrize("part", ["goldens", "goldens/demo", "goldens/demo/v1"])
def test_a_link_on_the_way_is_refused(folder, make, plain, part, tmp_path):
    ref = make.rewrite(folder, data_of(folder))
    (plain.root / part).rename(tmp_path / "elsewhere")
    (plain.root / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GoldenError, match=f"{part} is a symbolic link"):
        local(plain.project, ref)


@pytest.mark.parametrize("link", [False, True])
def test_a_golden_without_its_list_is_refused(folder, link):
    (folder / "golden.json").unlink()
    if link:
        (folder / "golden.json").symlink_to("/etc/passwd")
    with pytest.raises(GoldenError, match="symbolic link" if link else "No such file"):
        read_golden(folder)


def test_a_list_under_another_name_or_version_is_refused(folder, make, plain):
    ref = make.rewrite(folder, {**data_of(folder), "name": "other", "version": 7})
    with pytest.raises(GoldenError, match="says it is other v7"):
        read_golden(folder, ref=ref._replace(name="demo", version=1))


def test_another_digest_than_the_manifest_says_is_refused_even_if_the_folder_agrees_with_itself(folder, plain):
    ref = Ref("demo", 1, "sha256:" + "0" * 64)
    with pytest.raises(GoldenError, match="the manifest says sha256:0000"):
        resolve(plain.project, ref)


def test_inputs_of_a_component_are_verified_too(folder, make, plain, parts):
    ref = make.rewrite(folder, data_of(folder))
    named = {"name": "demo", "version": 1, "digest": ref.digest}
    component = Component(name="vae", inputs={"latents": TensorInput(golden=named, entry="latents")})
    case = parts.build_case(plain.root, component=component)
    assert resolve_for(case, plain.project, case.legs).problems == ()
    (folder / FILE).write_bytes(b"")
    ((leg, message, fix),) = resolve_for(case, plain.project, case.legs).problems
    assert (leg, bool(fix)) == ("", True)
    assert f"{FILE} has 0 bytes" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "it2i"}, "was made for the task it2i, the case is t2i"),
        ({"output": {"kind": "images", "width": 9}}, "holds the output kind images, width 9"),
        ({"inputs": [{"role": "image", "sha256": "sha256:" + "0" * 64}]}, "other conditioning files"),
        (
            {"model": {"id": "demo-model", "revision": "1" * 40, "weights": "trained", "verified": True}},
            "was made with",
        ),
        ({"items": [{"id": "000", "request": {"prompt": "one"}}]}, "has 1 items, the suite 3"),
    ],
)
def test_a_golden_that_answers_another_case_is_a_problem(folder, make, plain, parts, changes, message):
    case = parts.build_case(plain.root)
    case = msgspec.structs.replace(case, document={"request": {"seed": 1}, "suite": {"prompts": ["a", "b", "c"]}})
    ref = make.rewrite(folder, {**data_of(folder), **changes})
    named = {"name": "demo", "version": 1, "digest": ref.digest}
    leg = parts.build_leg("reference", runner="golden", adapter=None, spec={"golden": named})
    found = resolve_for(case, plain.project, (leg,))
    assert found.folders == {}
    assert any(message in text for name, text, fix in found.problems if name == "reference" and fix)


def test_what_lies_in_the_folder_and_is_no_golden_is_told(folder, plain):
    (plain.root / "goldens/notes.txt").write_text("x")
    (plain.root / "goldens/Demo2").mkdir()
    (plain.root / "goldens/demo/latest").symlink_to("v1")
    code, result = plain.json("golden", "verify")
    assert code == 1
    assert {entry["problem"] for entry in result["goldens"]} == {
        "goldens/notes.txt is no golden", "goldens/Demo2 is no golden", "goldens/demo/latest is no golden", "",
    }  # fmt: skip


def test_a_missing_golden_is_no_skip_where_the_hardware_is_missing_too(plain):
    named = f'{{name: lost, version: 1, digest: "sha256:{"0" * 64}"}}'
    plain.write(reference=f"{{runner: golden, golden: {named}}}", claim="golden-regression")
    path = plain.root / "cases/demo.case.yaml"
    path.write_text(path.read_text().replace("{sku: [CPU], cards: 0}", "{sku: [H100], cards: 1}"))
    (plain.root / "cases/test_demo.py").write_text("def test_accuracy(accuracy_case):\n    accuracy_case.check()\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "cases/test_demo.py"]
    done = subprocess.run(words, cwd=plain.root, capture_output=True, text=True, check=False)
    assert "golden lost v1 is missing" in done.stdout
    assert "1 failed" in done.stdout, done.stdout
