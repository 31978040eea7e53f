"""Fixtures for all tests: the broker of the run, names for its topics, and separate brokers."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
import structlog
from tests.chaos.faults import versions
from tests.kubectl import programs
from tests.planes import plane as planes
from tests.support import browsers, documents, examples, hangs, promtool, scheduling, tiers
from tests.support.brokers import Broker, BrokerMissingError, Choice, EmbeddedBroker, choose
from tests.support.costs import Meter, Report, ceilings_of, processor_seconds
from tests.support.shared_broker import SharedBroker
from xdist.scheduler import LoadScopeScheduling

# Tests share the processors, so how long one example takes says nothing.
hypothesis.settings.register_profile("shared", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# The same examples in every run of a tier and of CI, so that no run fails by chance. Other runs draw new ones.
hypothesis.settings.register_profile("same", hypothesis.settings.get_profile("shared"), derandomize=True)

# Unique among the runs that may share a cluster. A process id alone can be the same in every container.
RUN = f"t{os.getpid()}-{int(time.time()):x}"
_CHOICE = pytest.StashKey[Choice]()
_SHARED = pytest.StashKey[SharedBroker]()
_METER = pytest.StashKey[Meter]()
_REPORT = pytest.StashKey[Report]()
_STOP = pytest.StashKey[Callable[[], None]]()
_EXCESSES = pytest.StashKey[list[str]]()
_NOTES: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=["test", "rest"], help="the tests of `make test`, or those of `make test-all`")
    parser.addoption("--pictures", action="store_true", help="write the pictures of the console in docs/images anew")


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[_CHOICE] = choose()
    except BrokerMissingError as error:
        raise pytest.UsageError(str(error)) from error
    hypothesis.settings.load_profile("same" if config.option.tier or os.environ.get("CI") else "shared")
    config.stash[_METER] = Meter()
    config.stash[_REPORT] = Report()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if tiers.is_in(collection_path, config.option.tier) else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    meter = item.config.stash[_METER]
    meter.calibrate()
    wall, cpu = time.perf_counter(), processor_seconds()
    try:
        return (yield)
    finally:
        item.stash.get(_STOP, lambda: None)()
        meter.note(item.nodeid, time.perf_counter() - wall, processor_seconds() - cpu)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    if not item.config.option.usepdb:  # a debugger may take its time
        item.stash[_STOP] = hangs.end_after(settings.timeout, item)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    result = getattr(node, "workeroutput", {}).get("costs")
    if result is not None:
        node.config.stash[_REPORT].add(result)


def pytest_report_header(config: pytest.Config) -> list[str]:
    choice = config.stash[_CHOICE]
    named = os.environ.get(documents.VARIABLE)
    told = named or f"our own pages only ({documents.VARIABLE} names no folder of others)"
    return [
        f"kafka: {choice.kind or 'MISSING'} ({choice.why})",
        f"documents: {told}",
        f"kubectl: {programs.told()}",
        f"browser: {browsers.told()}",
        f"promtool: {promtool.told()}",
        f"planes: {planes.told()}",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[_REPORT].seconds:
        terminalreporter.section("cost of the rooms (processes run beside each other)")
        for line in config.stash[_REPORT].table():
            terminalreporter.write_line(line)
    for line in config.stash.get(_EXCESSES, []):
        terminalreporter.write_line(f"too expensive: {line}", red=True)
    for note in _NOTES:
        terminalreporter.write_line(f"kafka: {note}", yellow=True)
    missing = {
        "kubectl": "" if programs.is_complete() else programs.told(),
        "browser": "" if browsers.program() else browsers.told(),
        "promtool": "" if promtool.program() else promtool.told(),
        "planes": "" if planes.is_complete() else planes.told(),
        "upgrade": versions.missing(),
    }
    for what, why in missing.items():
        if why:
            terminalreporter.write_line(f"{what}: {why}", red=True)
    for language, needs in examples.missing().items():
        note = f"examples: {needs} MISSING, SO THE DEPLOYER AND THE PROBE IN {language.upper()} DID NOT RUN"
        terminalreporter.write_line(note, red=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    return scheduling.workers() if config.option.numprocesses == "auto" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return scheduling.Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: scheduling.rank(item.nodeid))


def pytest_runtest_logfinish() -> None:
    """Reset logging that a command has set up, because its output is closed after the test."""
    structlog.reset_defaults()
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # Not in the fixture, because a worker may wait here for others longer than the time limit of a test.
    config = session.config
    shared = config.stash.get(_SHARED, None)
    if shared is not None:
        asyncio.run(shared.close())
    meter, report = config.stash[_METER], config.stash[_REPORT]
    if meter.loops and hasattr(config, "workeroutput"):
        config.workeroutput["costs"] = meter.result()
    elif meter.loops:
        report.add(meter.result())
    if hasattr(config, "workerinput") or config.option.tier is None:
        return
    whole = not (config.option.keyword or config.option.markexpr or config.option.lf or session.shouldstop)
    ceilings = ceilings_of(config.option.tier)
    config.stash[_EXCESSES] = report.excesses(ceilings) if whole and ceilings else []
    if config.stash[_EXCESSES] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """The broker of the run, which all tests share. Use `topic_prefix`, and do not stop it."""
    config = request.config
    worker = hasattr(config, "workerinput")
    folder = tmp_path_factory.getbasetemp()
    shared = config.stash[_SHARED] = SharedBroker(config.stash[_CHOICE], folder.parent if worker else folder, RUN)
    used = await shared.use()
    _NOTES.extend(shared.notes)
    return used


_counter = itertools.count(1)


@pytest.fixture
def topic_prefix() -> str:
    """The prefix for a test's own topics, groups and transactional ids, so that all tests can use one broker."""
    return f"{RUN}-{next(_counter)}-"


@pytest_asyncio.fixture(loop_scope="session")
async def own_broker(tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    """A running embedded broker for one test, which may be stopped, killed and paused.

    A start after a kill takes as long as its session with the controller, which is short here.
    """
    own = EmbeddedBroker(tmp_path / "kafka", {"broker.session.timeout.ms": "3000"})
    await own.start()
    try:
        yield own
    finally:
        await own.close()


@pytest_asyncio.fixture(loop_scope="session")
async def patient_broker(tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    """A broker for one test that can hang for a minute and still be the leader of its partitions.

    For tests of clients whose broker does not answer. A broker that hangs for longer than its session with the
    controller can also lose markers of transactions; tests/kafka/test_lost_markers.py tests that separately. It must
    not be killed, because a restart would take as long as the session.
    """
    own = EmbeddedBroker(tmp_path / "kafka", {"broker.session.timeout.ms": "60000"})
    await own.start()
    try:
        yield own
    finally:
        await own.close()
