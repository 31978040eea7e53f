"""Lines of decisions: their limit, and that the short way to write one gives the same line."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from tests.support.waiting import until

from moorage.runtime.process import decision_log as module
from moorage.runtime.process.decision_log import LEFT_OUT, DecisionLog
from moorage.runtime.process.logs import REDACTED, Line, configure_logs, write_lines
from moorage.runtime.settings.process_settings import Settings

TEXTS = st.text(max_size=30) | st.sampled_from(
    [
        "password=hunter2",
        "Bearer abcdefgh",
        "amqp://user:pass@host/",
        "eyJhbGciOi.eyJzdWIi.c2ln",
        "apiKey: 17",
        "PRIVATE-KEY=x",
        "node.kubernetes.io/not-ready:NoExecute",
        "Basic Zm9vOmJhcg==",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    ]
)


@pytest.fixture(scope="module", autouse=True)
def _logging_is_restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def written(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@given(st.dictionaries(st.sampled_from(["message", "reason", "key", "target"]), TEXTS | st.lists(TEXTS, max_size=2)))
def test_the_short_way_to_write_a_line_gives_the_same_as_structlog(fields: dict[str, object]) -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    write_lines([Line("", "it.happened", fields, logging.WARNING)])
    structlog.get_logger("any").warning("it.happened", **{name: value for name, value in fields.items() if value != ""})
    short, usual = out.getvalue().split("\n")[:2]
    assert list(json.loads(short)) == list(json.loads(usual))
    assert short.partition('"level"')[2] == usual.partition('"level"')[2]


def test_secrets_are_taken_out_of_lines_of_decisions() -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    secret = Line("", "record.refused", {"message": "value: invalid value 'password=hunter2'"}, logging.WARNING)
    write_lines([Line("", "one", {"target": "Node/n1"}, logging.INFO), secret, Line("", "two", {}, logging.INFO)])
    assert [line["event"] for line in written(out)] == ["one", "record.refused", "two"]
    assert "hunter2" not in out.getvalue()
    assert REDACTED in out.getvalue()


def test_a_storm_writes_its_limit_and_counts_the_rest() -> None:
    out, seconds = io.StringIO(), [0.0]
    configure_logs(Settings(log_format="json"), stream=out)
    log = DecisionLog(50, clock=lambda: seconds[0])

    def describe(kind: str) -> None:
        if log.wants(kind):
            log.write(kind, {"target": "Node/n1"})

    for _ in range(10_000):
        seconds[0] += 0.0001
        log.later(lambda: describe("eviction.requested"))
    log.later(lambda: describe("taint.added"))
    log.report()
    lines = written(out)
    count = [line["event"] for line in lines].count("eviction.requested")
    assert count == pytest.approx(250 + 50, abs=1), "a burst of five seconds, and the rate for one second"
    assert lines[-2]["event"] == "taint.added", "each kind has a limit of its own"
    assert lines[-1] | {"time": ""} == {
        "time": "",
        "level": "warning",
        "event": LEFT_OUT,
        "count": 10_000 - count,
        "kinds": {"eviction.requested": 10_000 - count},
        "seconds": pytest.approx(0.97, abs=0.1),
    }
    log.report()
    assert written(out) == lines, "nothing was left out since"


async def test_what_was_left_out_is_written_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    monkeypatch.setattr(module, "REPORT_SECONDS", 0)
    log = DecisionLog(1, clock=lambda: 0.0)
    log.flush()
    wanted = [log.wants("taint.added") for _ in range(8)]
    assert wanted == [True] * 5 + [False] * 3
    await until(lambda: bool(out.getvalue()))
    assert [line["count"] for line in written(out)] == [3]


async def test_decisions_of_a_moment_are_described_together_with_their_own_times() -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    log, described = DecisionLog(0), list[int]()

    def fail() -> None:
        raise ValueError

    log.later(lambda: described.append(1))
    log.later(fail)
    log.later(lambda: log.write("taint.added", {}))
    assert described == []
    await until(lambda: len(out.getvalue().splitlines()) == 2)
    first, second = written(out)
    assert (first["event"], second["event"]) == ("decision.not_logged", "taint.added"), "one that fails spoils no other"
    assert str(second["time"]) < str(first["time"])


def test_levels_below_that_of_the_log_are_not_wanted_and_not_counted() -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json", log_level="warning"), stream=out)
    log = DecisionLog(1)
    assert log.level == logging.WARNING
    log.flush()
    assert not log.wants("taint.added")
    assert log.wants("record.refused", logging.WARNING)
    log.report()
    assert out.getvalue() == ""


def test_the_time_is_first_in_lines_of_any_library() -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    structlog.get_logger("any").info("mine", target="Node/n1")
    logging.getLogger("other").warning("theirs %s", 1)
    assert [list(line)[:3] for line in written(out)] == [["time", "level", "event"]] * 2
