"""What a process logs, and what it leaves out."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog
import uvicorn

from moorage.apiserver.http.intake import explain
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings


@pytest.fixture
def _logging_is_restored() -> Iterator[None]:
    root, httpx = logging.getLogger(), logging.getLogger("httpx")
    before = (root.handlers[:], root.level, httpx.level)
    yield
    root.handlers[:], level, level_of_httpx = before[0], before[1], before[2]
    root.setLevel(level)
    httpx.setLevel(level_of_httpx)
    structlog.reset_defaults()


@pytest.mark.usefixtures("_logging_is_restored")
def test_requests_that_succeed_are_not_logged() -> None:
    out = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=out)
    logging.getLogger("httpx").info("HTTP Request: GET %s", "http://127.0.0.1/v1/explain")
    assert out.getvalue() == ""
    logging.getLogger("httpx").warning("odd")
    assert '"event":"odd"' in out.getvalue()


def test_connections_to_the_query_worker_are_given_up_before_it_closes_them() -> None:
    assert uvicorn.Config("app").timeout_keep_alive > explain._IDLE_SECONDS
