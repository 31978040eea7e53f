"""Structured logs without secrets: JSON for machines, coloured lines for a terminal. The time is first in each line.

No line should have a secret; redaction is the last line of defence. A value is redacted if its key names a secret, such
as `authorization` or `sasl_password`. Within texts, so are bearer tokens, JSON Web Tokens, passwords in URLs, and the
words after a name of a secret.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TextIO

import orjson
import structlog

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.envelope import Meta

REDACTED: Final = "[redacted]"

_WORDS: Final = "authorization|cookie|passphrase|passwd|password|secret|token|api[-_]?key|private[-_]?key"
_SECRET_KEY: Final = re.compile(rf"(?:[a-z0-9]+[-_]){{0,8}}(?:{_WORDS})", re.IGNORECASE)
_IN_TEXTS: Final = (
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), REDACTED),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), rf"\1:{REDACTED}@"),
    (
        re.compile(
            rf"""((?:{_WORDS})["']?\s*[:=]\s*["']?)(?!\[redacted\]|(?:bearer|basic)\b)[^\s"',;&}}\])]+""", re.IGNORECASE
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
)
_DEEPEST: Final = 8


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take secrets out of a log line. A processor of structlog."""
    for key, value in event.items():
        event[key] = _clean(key, value, _DEEPEST)
    return event


def redacted(text: str) -> str:
    """Return a text without the secrets in it."""
    for pattern, instead in _IN_TEXTS:
        text = pattern.sub(instead, text)
    return text


def redacted_field(name: str, value: str) -> str:
    """Return the value of a field, such as a header, without secrets. The name may mark all of it as secret."""
    return str(_clean(name, value, 0))


def _clean(key: object, value: Any, depth: int) -> Any:
    name = key.decode("latin-1") if isinstance(key, bytes) else key
    if isinstance(name, str) and _SECRET_KEY.fullmatch(name) and value not in (None, "", b""):
        return REDACTED
    match value:
        case str():
            return redacted(value)
        case bytes():
            return redacted(value.decode("utf-8", "replace"))
        case BaseException():
            return redacted(repr(value))
        case Mapping() | list() | tuple() | set() | frozenset() if depth:
            return _inside(value, depth - 1)
    return value


def _inside(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _clean(name, inner, depth) for name, inner in value.items()}
    if len(value) == 2 and isinstance(value, tuple) and isinstance(value[0], str | bytes):  # noqa: PLR2004 - a header
        return value[0], _clean(value[0], value[1], depth)
    return [_clean("", inner, depth) for inner in value]


_FIRST: Final = ("time", "level", "event")
"""The fields with which each line begins, in this order."""


def in_order(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the time, the level and the event first. A processor of structlog."""
    return {name: event[name] for name in _FIRST if name in event} | {
        name: value for name, value in event.items() if name not in _FIRST
    }


_QUIET = ("aiokafka", "faststream", "uvicorn", "asyncio")
_TALKATIVE = ("httpx",)
"""Loggers that write a line for each request at the level info."""


def configure_logs(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging for this process."""
    out = stream or sys.stderr
    level = getattr(logging, settings.log_level.upper())
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not out.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.MaybeTimeStamper(fmt="iso", utc=True, key="time"),
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_json) if as_json else console_renderer(colors=out.isatty())
    )
    # A traceback becomes text here, without the values of variables, so that secrets can be taken out of it.
    errors: list[Any] = [structlog.processors.format_exc_info, redact, in_order]
    _Direct.out, _Direct.level = out if as_json else None, level
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


def console_renderer(*, colors: bool) -> structlog.dev.ConsoleRenderer:
    """Return the renderer of lines for people. It leaves the order of the fields as it is."""
    return structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="time", sort_keys=False)


class _Direct:
    """Where JSON lines go that need none of structlog's processors."""

    out: TextIO | None = None
    level: int = logging.CRITICAL


_log = structlog.get_logger(__name__)
_LEVELS: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
}
_SUSPECT: Final = (
    "bearer",
    "basic",
    "eyj",
    "://",
    "-----begin",
    "authorization",
    "cookie",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "privatekey",
    "private_key",
    "private-key",
)
"""Each text that a rule of `redact` changes contains one of these, in lower case."""


def lowest_level() -> int:
    """Return the lowest level of which lines are written; that of no line before `configure_logs` was called."""
    return _Direct.level


def time_text(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as lines have it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Line(NamedTuple):
    """A line to write."""

    time: str
    event: str
    fields: Mapping[str, object]
    level: int


def write_lines(lines: Sequence[Line]) -> None:
    """Write some lines, each the same as that of a structlog logger. Empty fields are left out.

    The way of most lines is short: no context, no exception, and no word that could belong to a secret.
    """
    out = _Direct.out
    if out is None or structlog.contextvars.get_contextvars():
        for line in lines:
            _log.log(line.level, line.event, **_filled(line), time=line.time)
        return
    texts = [
        _json({"time": line.time, "level": _LEVELS[line.level], "event": line.event, **_filled(line)}) + "\n"
        for line in lines
    ]
    text = "".join(texts)
    if not _is_suspect(text):
        out.write(text)
        out.flush()
        return
    for line, one in zip(lines, texts, strict=True):
        if _is_suspect(one):
            _log.log(line.level, line.event, **_filled(line), time=line.time)
        else:
            out.write(one)
    out.flush()


def _is_suspect(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _SUSPECT)


def _filled(line: Line) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in line.fields.items()
        if value is not None and value not in ("", ())
    }


@contextmanager
def bound_to(meta: Meta, target: str = "", **more: object) -> Iterator[None]:
    """Bind an event's id, correlation id and target to every line that is logged inside the block."""
    with structlog.contextvars.bound_contextvars(
        event_id=meta.id, correlation=meta.correlation, target=target or meta.subject, **more
    ):
        yield


@contextmanager
def silenced() -> Iterator[None]:
    """Keep the logs of gateway and services out of a command's output. The command itself reports important events."""
    before, level = structlog.get_config(), _Direct.level
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    _Direct.level = logging.CRITICAL
    try:
        yield
    finally:
        structlog.configure(**before)
        _Direct.level = level


def _json(document: Any, **options: Any) -> str:
    return orjson.dumps(document, default=options.get("default", str)).decode()
