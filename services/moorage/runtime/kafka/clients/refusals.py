"""Kafka's refusals of this process in words: the principal, the operation and the resource.

aiokafka 0.14 hides much of this. A client with a refused user only reports that it found no broker, and one with a
refused token sees a closed connection. A client that may not see a topic waits for it silently. Refusals are logged and
shown on the readiness page as long as they last. Requests are repeated, so that a process continues once the rights are
granted.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from traceback import walk_tb
from typing import Any, Final

import structlog
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)

from moorage.runtime.kafka.clients.passwords import SecretFileError
from moorage.runtime.kafka.clients.security import principal
from moorage.runtime.kafka.clients.tokens import TokenError
from moorage.runtime.settings.process_settings import Settings

log = structlog.get_logger(__name__)

HINT: Final = "`moorage topics acls --check` shows what is missing"

_SHOWN: Final = 30.0
"""Seconds for which a refusal is shown. A lasting one occurs again within that time."""

_LOGGED: Final = 30.0
"""Seconds after which a refusal that lasts is logged again."""

_ALLOWED: Final = {
    TopicAuthorizationFailedError: "topic",
    GroupAuthorizationFailedError: "group",
    TransactionalIdAuthorizationFailed: "transactional id",
    ClusterAuthorizationFailedError: "the cluster",
}

_NOT_KNOWN: Final = (
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
    TokenError,
    ssl.SSLError,
)


class NotAuthenticatedError(KafkaConnectionError):  # type: ignore[misc]  # aiokafka publishes no types
    """Kafka answers, but not to this process: its user, token or certificate is not accepted."""

    retriable = False

    def __str__(self) -> str:
        return str(self.args[0])


class Refusals:
    """The recent refusals.

    Args:
        now: returns seconds that only grow.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self.logs = True
        """Whether refusals are logged. A command reports them itself."""

    def note(self, text: str) -> None:
        """Note a refusal, and log it unless that was done a moment ago."""
        now = self._now()
        self._seen[text] = now
        if self.logs and now - self._logged.get(text, -_LOGGED) >= _LOGGED:
            self._logged[text] = now
            log.error("kafka.refused", why=text)

    def current(self) -> list[str]:
        """Return the refusals that last."""
        now = self._now()
        self._seen = {text: seen for text, seen in self._seen.items() if now - seen < _SHOWN}
        self._logged = {text: logged for text, logged in self._logged.items() if now - logged < 2 * _LOGGED}
        return sorted(self._seen)


REFUSALS: Final = Refusals()
"""Those of this process."""


def describe(error: BaseException, settings: Settings) -> str:
    """Return an error of Kafka in words, and note a refusal.

    Args:
        error: the exception of a client.
        settings: those of the client, which name its principal.
    """
    text = refusal(error, principal(settings))
    if text:
        REFUSALS.note(text)
    return text or repr(error)


def hidden_topic(name: str, settings: Settings) -> str:
    """Return in words that a topic may not be seen."""
    return not_allowed(principal(settings), "Describe", "topic", name)


def refusal(error: BaseException, who: str) -> str:
    """Return an error's refusal in words, or nothing if it refuses nothing."""
    for one in _chain(error):
        if isinstance(one, NotAuthenticatedError):
            return str(one)
        for kind, what in _ALLOWED.items():
            if isinstance(one, kind):
                # About the cluster, the broker explains its request instead of a name.
                named = one.args[0] if one.args and what != "the cluster" else ""
                return not_allowed(who, _operation(one, what), what, named)
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"the certificate of Kafka is not accepted: {one.verify_message or one}"
        if isinstance(one, SecretFileError):
            return f"{who} has no password for Kafka: {one}"
        if isinstance(one, _NOT_KNOWN):
            return _not_accepted(who, one)
    return ""


def not_allowed(who: str, operation: str, what: str, names: Any) -> str:
    """Return in words that a principal may not do something with topics, groups or transactional ids."""
    listed = names if isinstance(names, (set, frozenset, list)) else [names]
    named = ", ".join(sorted(str(getattr(name, "topic", name)) for name in listed))
    many = "s" if len(listed) > 1 else ""
    return f"{who} may not {operation} {what}{many} {named}".rstrip() + f": Kafka's ACLs do not allow it; {HINT}"


def _not_accepted(who: str, error: BaseException) -> str:
    given = error.args[0] if isinstance(error, KafkaError) and error.args else str(error)
    why = given or type(error).__name__
    return f"Kafka does not accept {who}: {why}"


def _operation(error: BaseException, what: str) -> str:
    """Return the operation by its name in ACLs. The error does not contain it, but its origin shows it."""
    if what == "transactional id":
        return "Write"
    if what == "group":
        return "Read"
    passed = {frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)}
    writes = any("producer" in name for name in passed)
    if what == "the cluster":
        return "IdempotentWrite to" if writes else "Describe or Alter"
    if writes:
        return "Write"
    return "Describe" if any(".admin" in name for name in passed) else "Read"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the members of its groups, and its causes."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions)
        waiting.extend(cause for cause in (one.__cause__, one.__context__) if cause is not None)
