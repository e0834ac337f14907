"""The pytest plugin: one test function stands for every case beneath its folder.

Inert until a test asks for ``accuracy_case``: other projects pay an import of the standard library and a look
for ``paritygate.yaml`` above their root. ``outcomes`` is the arithmetic, ``watch`` the session's account,
``cases`` and ``check`` load only where there are cases.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paritygate.errors import printable
from paritygate.pytest_plugin.outcomes import Outcome, replace_properties
from paritygate.pytest_plugin.watch import FIXTURE, Watch, concludes, in_ci, settle, target_of

if TYPE_CHECKING:
    from paritygate.pytest_plugin.check import AccuracyCase

_PARAMETERS: pytest.StashKey[dict[Path, list[Any]]] = pytest.StashKey()
_CASE: pytest.StashKey[AccuracyCase] = pytest.StashKey()
_TRIES: pytest.StashKey[list[Outcome]] = pytest.StashKey()
_WATCH = "paritygate-watch"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the two options."""
    group = parser.getgroup("paritygate", "accuracy cases")
    group.addoption(
        "--paritygate-expect",
        type=_count,
        metavar="N",
        help="fail when fewer than N cases were really compared (passed, failed, provisional or invalid)",
    )
    group.addoption(
        "--paritygate-artifacts",
        metavar="DIR",
        help="write run directories below DIR instead of the project's artifacts folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the session's account, and register the marks of the project above the root, if there is one."""
    config.stash[_PARAMETERS] = {}
    if artifacts := config.getoption("paritygate_artifacts"):
        # xdist workers receive the options as they stand now, and need not start in the same folder.
        config.option.paritygate_artifacts = str((config.invocation_params.dir / artifacts).absolute())
    config.pluginmanager.register(Watch(config), _WATCH)
    if _in_project(config.rootpath):
        from paritygate.pytest_plugin.cases import enter_project  # noqa: PLC0415 - only projects pay for it

        enter_project(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | None, int | None]:
    """Settle the exit status when all else is over: whatever mode pytest ran in, and whatever a hook made of it."""
    status = yield
    watch = config.pluginmanager.getplugin(_WATCH)
    return status if watch is None else watch.exit_status(int(status or 0))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for ``accuracy_case`` every case beneath its folder."""
    folder = metafunc.definition.path.parent
    if FIXTURE not in metafunc.fixturenames or not _in_project(folder):
        return
    from paritygate.pytest_plugin.cases import parameters  # noqa: PLC0415 - other tests never load it

    known = metafunc.config.stash[_PARAMETERS]
    if folder not in known:
        known[folder] = parameters(metafunc.config, folder)
    metafunc.parametrize(FIXTURE, known[folder], indirect=True)


@pytest.fixture
def accuracy_case(request: pytest.FixtureRequest) -> AccuracyCase:
    """The case of this test node: ``accuracy_case.check()`` runs it and turns its verdict into a test result."""
    if not hasattr(request, "param"):
        pytest.fail(f"paritygate: no paritygate.yaml above {request.path}; run: paritygate init", pytrace=False)
    from paritygate.pytest_plugin.check import AccuracyCase  # noqa: PLC0415 - other tests never load them

    config = request.config
    case = AccuracyCase(
        request.param,
        in_ci=in_ci(),
        artifacts=config.getoption("paritygate_artifacts"),
        announce=_announcer(config, aloud=in_ci() or config.get_verbosity() > 0),
    )
    request.node.stash[_CASE] = case
    return case


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hold what the test reports against what its case left behind."""
    report = yield
    target = target_of(item)
    if target is not None and concludes(report):
        case = item.stash.get(_CASE, None)
        outcome = settle(
            report,
            name=target.case.id,
            outcome=case.outcome if case else None,
            in_ci=in_ci(),
            tries=item.stash.setdefault(_TRIES, []),
        )
        # A plugin may run an item again: of this try nothing but its outcome may speak in the next.
        if case is not None:
            del item.stash[_CASE]
        replace_properties(item.user_properties, outcome)
        replace_properties(report.user_properties, outcome)
    return report


def _announcer(config: pytest.Config, *, aloud: bool) -> Callable[[object], object]:
    """What a running case tells its progress to: a plain line at once when ``aloud``, else nothing.

    A case can take an hour, so its lines must not wait in pytest's capture until it ends.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    lead = ["\n"]  # the first line ends the one on which pytest shows where it is

    def announce(line: object) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            print(*lead, printable(line), sep="", flush=True)
        lead.clear()

    return announce if aloud else lambda _line: None


def _in_project(folder: Path) -> bool:
    # Path.is_file raises for a folder that cannot be read, and there may be one above any project.
    return any(os.path.isfile(above / "paritygate.yaml") for above in (folder, *folder.parents))  # noqa: PTH113


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a count of cases, 0 or more, got {text!r}")
    return int(text)
