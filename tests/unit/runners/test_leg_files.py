"""What a leg leaves is not trusted: no file of it hangs the harness, fills it, or gets a word past it."""

import re

import pytest

HOSTILE_FILES = [
    ("os.mkfifo(NAME)", "not a regular file"),
    ("os.symlink('/dev/zero', NAME)", "symbolic link"),
    ("os.mkdir(NAME)", "not a regular file"),
    ("open(NAME, 'w').truncate(65 << 20)", "more than the 67108864 bytes"),
    ("open(NAME, 'w').write('[' * 100_000)", "recursion|Expected"),
    ("None", "No such file"),
]


@pytest.mark.parametrize("name", ["outputs.json", "effective.json"])
@pytest.mark.parametrize(("spoil", "words"), HOSTILE_FILES)
def test_a_leg_whose_own_files_are_hostile_is_broken_and_never_hangs_the_harness(bad_leg, name, spoil, words):
    record, _ = bad_leg(f"""
        import os
        NAME = {name!r}
        def run(job, writer):
            finish = writer.finish
            def spoiled(**given):
                finish(**given)
                os.unlink(NAME)
                {spoil}
            writer.finish = spoiled
    """)
    assert (record.failure, record.exit_code) == ("crash", 0)
    assert re.search(f"candidate/{name}.*({words})", record.message), record.message


def test_a_failure_that_a_leg_invents_is_no_reason_to_run_again(bad_leg):
    record, _ = bad_leg("""
        import os
        def run(job, writer):
            open("failure.json", "w").write('{"kind": "please retry", "message": "x"}')
            os._exit(7)
    """)
    assert record.failure == "crash"
    assert "code 7" in record.message


def test_effective_settings_of_a_later_version_are_refused(bad_leg):
    record, _ = bad_leg("""
        def run(job, writer):
            finish = writer.finish
            def spoiled(**given):
                finish(**given)
                open("effective.json", "w").write('{"schema_version": 2}')
            writer.finish = spoiled
    """)
    assert record.failure == "crash"
    assert "later version 2" in record.message


def test_a_secret_that_a_leg_writes_past_the_writer_never_reaches_the_record(bad_leg, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hf_secret_value")
    record, _ = bad_leg("""
        def run(job, writer):
            finish = writer.finish
            def spoiled(**given):
                finish(**given)
                text = '{"settings": {"a": "hf_secret_value"}, "environment": {"b": ["hf_secret_value"]}}'
                open("effective.json", "w").write(text)
            writer.finish = spoiled
    """)
    assert record.effective.settings == {"a": "***"}
    assert record.effective.environment == {"b": ["***"]}


def test_a_leg_that_floods_its_log_is_ended_and_the_log_is_cut(bad_leg, monkeypatch):
    monkeypatch.setattr("paritygate.runners.process.MAX_LOG_BYTES", 1 << 20)
    monkeypatch.setattr("paritygate.runners.leg.MAX_LOG_BYTES", 1 << 20)
    record, folder = bad_leg("""
        def run(job, writer):
            while True:
                print("x" * 100_000)
    """)
    assert (record.failure, record.exit_code) == ("crash", None)
    assert record.message == "printed more than the 1 MiB a log may have; ended"
    assert (folder / "log.txt").stat().st_size == 1 << 20


def test_an_outputs_folder_that_is_a_link_is_refused_and_not_walked(bad_leg):
    record, _ = bad_leg("""
        import os, shutil, time
        def run(job, writer):
            writer.image("0000", GREY)
            shutil.move("outputs", "moved")
            os.symlink("moved", "outputs")
            time.sleep(0.5)
    """)
    assert (record.failure, record.exit_code) == ("crash", 0)
    assert "outputs/ is a symbolic link" in record.message
