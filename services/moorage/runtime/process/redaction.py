"""Takes secrets out of log lines. No line should have one; this is the last line of defence.

A value is taken out whose key names a secret, such as `authorization` or `sasl_password`. Within texts, so are bearer
tokens, JSON Web Tokens, passwords in URLs, and what follows a name of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

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
    """Return the value of a field, such as a header, without secrets. The name may say that all of it is one."""
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
