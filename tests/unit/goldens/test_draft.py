"""What a draft says of the machine it was made on, and what counts as pinned."""

from pathlib import Path

import msgspec
import pytest

from paritygate.errors import GoldenError
from paritygate.goldens.draft import portable, standing_reasons
from paritygate.goldens.layout import new_folder, write_outputs
from paritygate.records.model import Effective, OutputMedia

HOME = str(Path.home())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/opt/venv/lib/torch/__init__.py", ".../__init__.py"),
        ("--model /data/m/w.bin:/data/n/o", "--model .../w.bin:.../o"),
        ("/work/project/cases/x.py", "cases/x.py"),
        ("in /work/project", "in ."),
        (f"{HOME}/cache", "~/cache"),
        ("file:///srv/u/x", "file://.../x"),
        ("http://host/a/b", "http://host/a/b"),
        ("application/json 1/2 /", "application/json 1/2 /"),
        ({"a": ["/x/y/z"]}, {"a": [".../z"]}),
        (3.5, 3.5),
    ],
)
def test_no_folder_of_this_machine_is_kept(text, kept):
    assert portable(text, Path("/work/project")) == kept


def test_secrets_are_not_kept(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "abc123secret")
    assert portable({"header": "Bearer abc123secret"}, Path("/x")) == {"header": "Bearer ***"}


@pytest.mark.parametrize(
    ("specifier", "pinned"),
    [("==1.0", True), ("===1.0", True), ("== 2.13.0+cpu", True), (f"@{'a' * 40}", True), ("==1.*", False),
     (">=1", False), ("~=1.0", False), ("==1,!=2", False), ("@main", False)],
)  # fmt: skip
def test_only_one_version_or_one_commit_is_pinned(tmp_path, make, specifier, pinned):
    make.golden(tmp_path / "golden")
    golden = make.read(tmp_path / "golden")
    assert list(standing_reasons(golden)) == []
    reference = msgspec.structs.replace(golden.reference, requires={"numpy": specifier}, versions={"numpy": "1.5"})
    reasons = list(standing_reasons(msgspec.structs.replace(golden, reference=reference)))
    assert reasons == [] if pinned else "write ==1.5" in reasons[0]


def test_a_folder_takes_its_name_whole_or_not_at_all(tmp_path):
    with pytest.raises(GoldenError, match="No such file"), new_folder(tmp_path / "v1") as folder:
        (folder / "part").write_text((tmp_path / "gone").read_text())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "v1").mkdir()
    with pytest.raises(GoldenError, match="never written over"), new_folder(tmp_path / "v1"):
        pass


def test_a_folder_whose_name_another_process_took_meanwhile_is_not_written_over(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("")
    with pytest.raises(GoldenError, match="made meanwhile"), new_folder(tmp_path / "v1"):
        (tmp_path / "theirs").rename(tmp_path / "v1")
    assert [path.name for path in tmp_path.rglob("*")] == ["v1", "file"]


def test_the_names_that_a_leg_wrote_down_become_no_names_of_the_golden(tmp_path, parts):
    leg = parts.write_leg(tmp_path / "run", "reference", {"000": [parts.picture(1)], "../../evil": []})
    (tmp_path / "golden").mkdir()
    source = tmp_path / "run" / "reference"
    write_outputs(leg, source, tmp_path / "golden", items=parts.build_items(1), effective=Effective())
    names = sorted(path.relative_to(tmp_path / "golden").as_posix() for path in (tmp_path / "golden").rglob("*.*"))
    assert names == ["outputs/000/0.float.npy", "outputs/000/0.png", "outputs/effective.json"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../secret.mp4", "is not a plain relative path"),
        ("outputs/000/gone.mp4", "No such file"),
        ("outputs/000/clip", "has no ending"),
        ("outputs/000/link.mp4", "symbolic link"),
        ("outputs/000/other.mp4", "is not the file that the leg recorded"),
    ],
)
def test_an_output_that_is_not_the_recorded_file_is_refused(tmp_path, parts, path, message):
    leg = parts.write_leg(tmp_path / "run", "reference", {"000": []})
    folder = tmp_path / "run" / "reference" / "outputs" / "000"
    folder.mkdir(parents=True)
    (tmp_path / "run" / "secret.mp4").write_bytes(b"secret")
    (folder / "link.mp4").symlink_to(tmp_path / "run" / "secret.mp4")
    (folder / "other.mp4").write_bytes(b"other")
    media = OutputMedia(role="video", path=path, sha256="sha256:" + "0" * 64, representation="encoded")
    item = msgspec.structs.replace(leg.items[0], media=(media,))
    leg = msgspec.structs.replace(leg, items=(item,))
    (tmp_path / "golden").mkdir()
    with pytest.raises(GoldenError, match=message):
        write_outputs(leg, folder.parents[1], tmp_path / "golden", items=parts.build_items(1), effective=Effective())
