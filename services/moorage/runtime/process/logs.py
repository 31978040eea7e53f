"""Structured logs: JSON for machines, coloured lines for a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import orjson
import structlog

from moorage.runtime.process.redaction import redact
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta

_QUIET = ("aiokafka", "faststream", "uvicorn", "asyncio")
_TALKATIVE = ("httpx",)
"""Loggers that write a line for each request at the level info."""


def configure_logs(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging for this process.

    Args:
        settings: the format and the lowest level.
        stream: the output; standard error when None.
    """
    out = stream or sys.stderr
    level = getattr(logging, settings.log_level.upper())
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_json)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    # A traceback becomes text here, without the values of variables, so that secrets can be taken out of it.
    errors: list[Any] = [structlog.processors.format_exc_info, redact]
    structlog.configure(
        processors=[*shared, structlog.stdlib.PositionalArgumentsFormatter(), *errors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *errors, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        # Kafka's clients report every passing problem. The runtime reports the ones that matter itself.
        logger.setLevel(level if settings.log_level == "debug" else logging.WARNING)
    if settings.log_level != "debug":
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        # A CEL function that fails only means that a cluster is not selected, which needs no warning.
        logging.getLogger("cel").setLevel(logging.ERROR)


@contextmanager
def bound_to(meta: Meta, target: str = "", **more: object) -> Iterator[None]:
    """Bind an event's id, correlation id and target to every line that is logged inside the block."""
    with structlog.contextvars.bound_contextvars(
        event_id=meta.id, correlation=meta.correlation, target=target or meta.subject, **more
    ):
        yield


@contextmanager
def silenced() -> Iterator[None]:
    """Keep the logs of gateway and services out of a command's output. The command itself reports what is important."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def _json(document: Any, **options: Any) -> str:
    return orjson.dumps(document, default=options.get("default", str)).decode()
