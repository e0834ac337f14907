"""Every dollar of a generated file is meant for run time, so it must come out of the upload as it went in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from paritygate.ci.buildkite import escape

Upload = Callable[[str, Mapping[str, str]], str]
ENV = {"FOO": "foo", "EMPTY": "", "BUILDKITE_COMMIT": "abcdef0123"}

OUTCOMES = {
    "$FOO": "foo",
    "${FOO}": "foo",
    "$$FOO": "$FOO",
    "\\$FOO": "$FOO",
    "${UNSET:-d}": "d",
    "${EMPTY:-d}": "d",
    "${EMPTY-d}": "",
    "${BUILDKITE_COMMIT:0:7}": "abcdef0",
    "$(date)": "$(date)",
    "$$(date)": "$(date)",
    "$((1+2))": "$((1+2))",
    "$1 $@ $# $?": "$1 $@ $# $?",
    "$-": "$-",
    "$_x": "$_x",
    "5$": "5$",
    "$5": "$5",
    "a$b-c": "a-c",
    "/x$$/": "/x$/",
    "/x$/": "/x$/",
}
REFUSED = ["${UNSET?need}", "${UNSET:?}", "${FOO^^}", "${#FOO}", "${FOO%x}", "${!V}", "${A[0]}", "${_x:-u}", "${{ m }}"]

INTENTS = [
    "$FOO",
    "${FOO}",
    "${FOO^^} ${#FOO} ${FOO%x} ${!V} ${A[0]} ${{ matrix.x }}",
    "$(date) `date` $((1+2))",
    "costs $5, $0, 5$",
    "$$ $$$ $",
    "/release$/",
    "say \"hi\" 'there' \\ back",
    "</script> & <b>",
    "Schöne Grüße 🎉",
    "two\nlines\n$FOO",
]
#: The intents that even an upload without escaping leaves alone.
HARMLESS = [text for text in INTENTS if not any(part in text for part in ("$F", "${", "$$"))]


@pytest.mark.parametrize(("text", "expected"), OUTCOMES.items())
def test_the_port_of_the_upload_agrees_with_the_recorded_outcomes(text: str, expected: str, upload: Upload) -> None:
    assert upload(text, ENV) == expected


@pytest.mark.parametrize("text", REFUSED)
def test_the_port_refuses_what_aborts_an_upload(text: str, upload: Upload, upload_refused: type[Exception]) -> None:
    with pytest.raises(upload_refused):
        upload(text, ENV)


@pytest.mark.parametrize("text", INTENTS)
@pytest.mark.parametrize("env", [ENV, {}], ids=["set", "unset"])
def test_an_escaped_text_means_the_same_after_the_upload(text: str, env: Mapping[str, str], upload: Upload) -> None:
    assert upload(escape(text), env) == text


def test_without_escaping_the_same_texts_are_lost_or_abort(upload: Upload, upload_refused: type[Exception]) -> None:
    def survives(text: str) -> bool:
        try:
            return upload(text, ENV) == text
        except upload_refused:
            return False

    assert [text for text in INTENTS if survives(text)] == [text for text in INTENTS if text in HARMLESS]
