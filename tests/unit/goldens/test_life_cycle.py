"""From the reference leg to a version that a case is held against, through the real command line."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest

from paritygate.errors import GoldenError
from paritygate.goldens.store import Ref, local

REASON = ("--reason", "looked at")
ENGINE = """
import sys
from pathlib import Path

import numpy as np

for item in ("000", "001"):
    (Path(sys.argv[1]) / item).mkdir()
    pixels = np.random.default_rng(7).random((8, 8, 3), dtype=np.float32)
    np.save(Path(sys.argv[1]) / item / "0.float.npy", pixels)
"""
NONE = {"name": "demo", "version": 1, "digest": "sha256:" + "0" * 64}


def promoted(demo, *words):
    code, created = demo.json("golden", "create", "demo", *words)
    assert (code, created["reasons"]) == (0, [])
    code, result = demo.json("golden", "promote", created["draft"], *REASON)
    assert code == 0
    return result["golden"]


def golden_case(demo, golden, *, generator="", name="frozen"):
    named = f'name: {golden["name"]}, version: {golden["version"]}, digest: "{golden["digest"]}"'
    demo.write(name=name, reference=f"{{runner: golden, golden: {{{named}{generator}}}}}", claim="golden-regression")


def test_a_golden_is_made_promoted_compared_with_and_found_out_when_one_byte_of_it_changes(demo):
    golden = promoted(demo)
    folder = demo.root / "goldens" / "demo" / "v1"
    assert (golden["name"], golden["version"]) == ("demo", 1)
    golden_case(demo, golden)
    code, out, err = demo.call("run", "frozen", "--json")
    (result,) = json.loads(out)["cases"]
    assert (code, result["status"], result["measurements"]) == (3, "unvalidated", {"output.abs_diff_max.max": 0.0}), err
    assert demo.call("golden", "verify")[0] == 0

    case = demo.root / "cases/frozen.case.yaml"
    text = case.read_text()
    case.write_text(text.replace("guidance_scale: 3.0", "guidance_scale: 4.0"))
    code, out, _ = demo.call("preflight", "frozen")
    assert code == 3
    assert "golden demo v1 answers another request for item 000: guidance_scale" in out
    case.write_text(text)

    png = folder / "outputs" / "000" / "0.png"
    data = bytearray(png.read_bytes())
    data[-20] ^= 1
    png.write_bytes(data)
    code, out, _ = demo.call("run", "frozen")
    assert code == 3
    assert "outputs/000/0.png was altered" in out
    code, out, _ = demo.call("golden", "verify")
    assert code == 1
    assert "outputs/000/0.png was altered" in out


def test_a_golden_made_with_another_backend_is_told_of_by_the_checklist(demo):
    # Field traps B22 and B65: the pixels are right, and were made under other conditions.
    golden_case(demo, promoted(demo))
    demo.adapter(leg="candidate")
    path = demo.root / "cases" / "candidate.py"
    path.write_text(path.read_text().replace('"native"', '"eager"'))
    code, out, _ = demo.call("run", "frozen")
    assert code == 3
    assert "attention_backend differs and is not declared: reference native, candidate eager" in out
    code, found = demo.json("checklist", "frozen")
    (row,) = [row for row in found["rows"] if row["field"] == "attention_backend"]
    assert (code, row["reference"], row["candidate"], row["verdict"]) == (1, "native", "eager", "undeclared")


def test_a_golden_keeps_what_it_was_made_of_and_no_folder_of_this_machine(demo, make):
    promoted(demo)
    text = (demo.root / "goldens/demo/v1/golden.json").read_text()
    golden = make.read(demo.root / "goldens/demo/v1")
    assert golden.generator.commit == demo.git("rev-parse", "HEAD").strip()
    assert (golden.generator.dirty, golden.promotable, golden.reason) == (False, True, "looked at")
    assert [item.request["prompt"] for item in golden.items] == ["one", "two"]
    assert golden.settings["attention_backend"] == "native"
    assert golden.reference.versions["numpy"] == np.__version__
    assert golden.environment["where"] == "cases/reference.py"
    assert golden.generator.profile["sku"] == "CPU"
    assert str(demo.root) not in text + (demo.root / "goldens/demo/v1/outputs/effective.json").read_text()
    assert {Path(name).name for name in golden.files} == {"0.png", "0.float.npy", "effective.json"}


def spoil_the_state(demo):
    demo.adapter("if item.id == '001': continue")
    demo.write(reference="{runner: python, adapter: reference.py}")


def spoil_what_is_committed(demo):
    (demo.root / ".gitignore").write_text("reference.py\nartifacts/\n__pycache__\n")
    demo.git("rm", "--cached", "-q", "cases/reference.py")
    demo.write(reference='{runner: python, adapter: reference.py, requires: {numpy: ">=1"}}')
    demo.adapter("pixels = pixels * 0")
    demo.commit()


def spoil_the_values(demo):
    demo.adapter("pixels[2, 3] = np.nan")
    demo.commit()
    (demo.root / "stray.txt").write_text("x")


def lose_git(demo):
    (demo.root / ".git").rename(demo.root / "git")


@pytest.mark.parametrize(
    ("spoil", "reasons"),
    [
        (spoil_the_state, ["the worktree is not clean (M cases/", "pins no distribution", "gave no output (item 001)"]),
        (spoil_what_is_committed, ["git does not hold cases/reference.py", "numpy >=1, which is not one", "item 000"]),
        (spoil_the_values, ["the worktree is not clean (?? stray.txt)", "NaN or infinite"]),
        (lose_git, ["is not in a git repository"]),
    ],
)
def test_a_draft_that_could_not_be_made_again_says_why_and_is_not_promoted(demo, spoil, reasons):
    spoil(demo)
    code, created = demo.json("golden", "create", "demo")
    assert (code, created["promotable"]) == (0, False)
    code, _, err = demo.call("golden", "promote", created["draft"], *REASON)
    assert code == 1
    for reason in reasons:
        assert reason in "; ".join(created["reasons"])
        assert reason in err
    assert not (demo.root / "goldens").exists()


def test_a_program_that_git_does_not_hold_keeps_a_draft_from_counting(demo):
    (demo.root / "cases/engine.py").write_text(ENGINE)
    (demo.root / ".gitignore").write_text("artifacts/\nengine.py\n")
    command = f'["{{python}}", engine.py, "{{outputs}}", {"x" * 5000}]'
    demo.write(reference=f'{{runner: command, command: {command}, cwd: ., requires: {{numpy: "=={np.__version__}"}}}}')
    demo.commit()
    _, created = demo.json("golden", "create", "demo")
    assert [reason for reason in created["reasons"] if "git" in reason] == [
        "git does not hold cases/engine.py: add it, and make the golden again"
    ]


@pytest.mark.parametrize("name", ["../x", "UP", ""])
def test_a_name_that_cannot_be_one_is_a_mistake_of_usage(demo, name):
    code, _, err = demo.call("golden", "create", "demo", "--name", name)
    assert (code, "is no name of a golden" in err) == (2, True)


def test_a_folder_of_goldens_that_cannot_be_read_is_named(demo, monkeypatch):
    project = demo.project

    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_symlink", refuse)
    with pytest.raises(GoldenError, match="goldens cannot be read: Permission denied"):
        local(project, Ref("demo", 1, ""))


def reasons_with_weights_in(demo, monkeypatch, weights: Path) -> list[str]:
    """Why a draft cannot be promoted whose weights are a commit of the hub, found in a folder."""
    weights.mkdir(parents=True)
    (weights / "weights.bin").write_bytes(b"any")
    monkeypatch.setenv("DEMO_MODEL", str(weights))
    path = demo.root / "cases/demo.case.yaml"
    line = next(line for line in path.read_text().splitlines() if line.startswith("model:"))
    pinned = f"model: {{id: demo-model, revision: {'a' * 40}, weights: trained, path_env: DEMO_MODEL}}"
    path.write_text(path.read_text().replace(line, pinned))
    demo.commit()
    _, created = demo.json("golden", "create", "demo")
    assert created["promotable"] == (not created["reasons"])
    return created["reasons"]


def test_weights_that_nothing_shows_are_not_the_revision(demo, monkeypatch, tmp_path):
    (reason,) = reasons_with_weights_in(demo, monkeypatch, tmp_path / "weights")
    assert reason.startswith(f"the weights of demo-model were not verified against the revision {'a' * 40}")


def test_the_snapshot_of_a_commit_in_the_hubs_cache_is_that_revision(demo, monkeypatch, tmp_path):
    assert reasons_with_weights_in(demo, monkeypatch, tmp_path / "snapshots" / ("a" * 40)) == []


def test_an_edited_draft_is_not_promoted(demo, make):
    demo.adapter("pixels = pixels * 1")
    _, created = demo.json("golden", "create", "demo")
    draft = demo.root / created["draft"]
    text = (draft / "golden.json").read_text()
    edited = json.loads(text) | {"promotable": True, "reasons": []}
    make.rewrite(draft, edited)
    code, _, err = demo.call("golden", "promote", created["draft"], *REASON)
    assert code == 1
    assert "the worktree was not clean" in err


def test_a_new_version_needs_an_oracle_says_what_moved_and_leaves_the_old_one_as_it_is(demo, make):
    golden = promoted(demo)
    old = demo.root / "goldens/demo/v1"
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    demo.adapter("pixels[0, 0, 0] += np.float32(0.25)")
    demo.commit()
    _, created = demo.json("golden", "create", "demo")
    code, _, err = demo.call("golden", "promote", created["draft"], *REASON)
    assert code == 2
    assert "needs an oracle" in err
    code, result = demo.json("golden", "promote", created["draft"], *REASON, "--oracle", "the text encoder agrees")
    assert code == 0
    assert (result["golden"]["version"], result["before"]) == (2, golden)
    largest = {entry["file"]: entry["largest"] for entry in result["moved"]}
    assert largest["000/0.float.npy"] == pytest.approx(0.25)
    assert largest["000/0.png"] == pytest.approx(0.25, abs=0.005)
    new = make.read(demo.root / "goldens/demo/v2")
    assert (new.oracle, new.replaces) == ("the text encoder agrees", golden["digest"])
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_nothing_is_promoted_over_a_version_that_was_altered(demo, make):
    make.golden(demo.root / "goldens/demo/v1")
    (demo.root / "goldens/demo/v1/outputs/000/0.tensors.npz").write_bytes(b"x")
    demo.commit()
    _, created = demo.json("golden", "create", "demo")
    code, _, err = demo.call("golden", "promote", created["draft"], *REASON, "--oracle", "o")
    assert code == 1
    assert "outputs/000/0.tensors.npz has 1 bytes" in err
    assert not (demo.root / "goldens/demo/v2").exists()


def test_no_golden_is_made_or_promoted_in_ci(demo, monkeypatch):
    monkeypatch.setenv("CI", "true")
    for words in (("create", "demo"), ("promote", "any", *REASON)):
        code, _, err = demo.call("golden", *words)
        assert code == 1
        assert "in CI" in err
    assert not (demo.root / "goldens").exists()


def test_a_golden_leg_is_made_by_its_generator(demo):
    generator = f', generator: {{runner: python, adapter: reference.py, requires: {{numpy: "=={np.__version__}"}}}}'
    golden_case(demo, NONE, generator=generator)
    demo.commit()
    code, created = demo.json("golden", "create", "frozen", "--name", "demo")
    assert (code, created["name"], created["reasons"]) == (0, "demo", [])
    code, result = demo.json("golden", "promote", created["draft"].rpartition("/")[2], *REASON)
    assert (code, result["folder"], result["moved"]) == (0, "goldens/demo/v1", [])


def test_a_golden_without_a_generator_cannot_be_made_from_its_own_case(demo):
    golden_case(demo, NONE)
    code, _, err = demo.call("golden", "create", "frozen")
    assert code == 2
    assert "reference.golden.generator" in err


def test_a_leg_that_breaks_leaves_no_draft(demo):
    demo.adapter("raise MemoryError")
    demo.commit()
    code, _, err = demo.call("golden", "create", "demo")
    assert code == 4
    assert "log.txt" in err
    assert not (demo.root / "artifacts/goldens").exists()


def test_the_list_tells_used_orphaned_and_missing_goldens_and_drafts(demo, make):
    golden_case(demo, make.golden(demo.root / "goldens/demo/v1")._asdict())
    golden_case(demo, {**NONE, "name": "lost", "version": 3}, name="losing")
    make.golden(demo.root / "goldens/other/v1", name="other")
    make.golden(demo.root / "artifacts/goldens/demo/one", version=None)
    make.golden(demo.root / "artifacts/goldens/other/two", name="other", version=None)
    code, result = demo.json("golden", "list")
    assert code == 1
    states = {(entry["name"], entry["version"]): (entry["state"], entry["cases"]) for entry in result["goldens"]}
    assert states == {
        ("demo", 1): ("used", ["frozen"]), ("lost", 3): ("missing", ["losing"]), ("other", 1): ("orphan", []),
    }  # fmt: skip
    assert [draft["name"] for draft in result["drafts"]] == ["demo", "other"]
    code, out, _ = demo.call("golden", "verify", "lost")
    assert code == 1
    assert "golden lost v3 is missing" in out
    assert "paritygate golden create" in out
    code, out, _ = demo.call("run", "losing")
    assert code == 3
    assert "golden lost v3 is missing" in out
