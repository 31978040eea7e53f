"""What Kafka refuses this process, in words: who may not do what to which topic, group or transactional id.

aiokafka 0.14 hides much of it. A client whose user is not accepted only says that it found no broker, one whose token
is refused sees a closed connection, and one that may not see a topic waits for it without a word. Refusals are logged
and shown on the readiness page as long as they last. Requests are repeated, so that a process goes on by itself when
the rights are granted.
"""

from __future__ import annotations

import contextvars
import functools
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from traceback import walk_tb
from typing import Any, Final

import aiokafka.client
import structlog
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator
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

from moorage.runtime.kafka.passwords import SecretFileError
from moorage.runtime.kafka.security import principal
from moorage.runtime.kafka.tokens import TokenError
from moorage.runtime.settings import Settings

log = structlog.get_logger(__name__)

HINT: Final = "`moorage topics acls --check` shows what is missing"

_SHOWN: Final = 30.0
"""Seconds for which a refusal is shown. What lasts is refused again within that time."""

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
    """What was refused of late.

    Args:
        now: returns seconds that only grow.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self.logs = True
        """Whether refusals are logged. A command tells them itself."""

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

_REFUSED: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("refused", default=None)
"""The refusals of the connections that a client has tried since it began to start."""


def told(error: BaseException, settings: Settings) -> str:
    """Return an error of Kafka in words. A refusal is noted, too.

    Args:
        error: what a client has raised.
        settings: those of the client, which say who it is.
    """
    text = refusal(error, principal(settings))
    if text:
        REFUSALS.note(text)
    return text or repr(error)


def hidden_topic(name: str, settings: Settings) -> str:
    """Return in words that a topic may not be seen."""
    return _not_allowed(principal(settings), "Describe", "topic", name)


def refusal(error: BaseException, who: str) -> str:
    """Return what an error refuses to whom, or nothing if it refuses nothing."""
    for one in _chain(error):
        if isinstance(one, NotAuthenticatedError):
            return str(one)
        for kind, what in _ALLOWED.items():
            if isinstance(one, kind):
                # About the cluster, the broker explains its request instead of a name.
                named = one.args[0] if one.args and what != "the cluster" else ""
                return _not_allowed(who, _operation(one, what), what, named)
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"the certificate of Kafka is not accepted: {one.verify_message or one}"
        if isinstance(one, SecretFileError):
            return f"{who} has no password for Kafka: {one}"
        if isinstance(one, _NOT_KNOWN):
            return _not_accepted(who, one)
    return ""


def _not_allowed(who: str, operation: str, what: str, names: Any) -> str:
    listed = names if isinstance(names, (set, frozenset, list)) else [names]
    named = ", ".join(sorted(str(getattr(name, "topic", name)) for name in listed))
    many = "s" if len(listed) > 1 else ""
    return f"{who} may not {operation} {what}{many} {named}".rstrip() + f": Kafka's ACLs do not allow it; {HINT}"


def _not_accepted(who: str, error: BaseException) -> str:
    given = error.args[0] if isinstance(error, KafkaError) and error.args else str(error)
    why = given or type(error).__name__
    return f"Kafka does not accept {who}: {why}"


def _operation(error: BaseException, what: str) -> str:
    """Return the operation by the name that ACLs have for it. The error does not tell it, but its origin does."""
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
    return "Describe" if any(".admin" in name or "topics_admin" in name for name in passed) else "Read"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the members of its groups, and what led to it."""
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


def tell_refusals() -> None:
    """Make aiokafka's clients tell what Kafka refuses them.

    This changes aiokafka's functions and classes, because aiokafka creates its connections itself. Further calls change
    nothing.
    """
    if hasattr(AIOKafkaClient.bootstrap, "__wrapped__"):
        return
    aiokafka.client.create_conn = _noting(aiokafka.client.create_conn)
    AIOKafkaClient.bootstrap = _telling(AIOKafkaClient.bootstrap)
    update = AIOKafkaClient._metadata_update  # noqa: SLF001 - aiokafka has no public way
    AIOKafkaClient._metadata_update = _noting_hidden_topics(update)  # noqa: SLF001 - as above
    OAuthAuthenticator.step = _reading_refusals(OAuthAuthenticator.step)


def _noting(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    async def creating(host: str, port: int, **arguments: Any) -> AIOKafkaConnection:
        try:
            return await create(host, port, **arguments)
        except BaseException as error:
            text = refusal(error, _user(arguments.get("sasl_plain_username"), arguments.get("sasl_mechanism")))
            if text:
                REFUSALS.note(text)
                if (found := _REFUSED.get()) is not None:
                    found.append(text)
            raise

    return creating


def _telling(bootstrap: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(bootstrap)
    async def bootstrapping(self: AIOKafkaClient) -> None:
        found: list[str] = []
        token = _REFUSED.set(found)
        try:
            await bootstrap(self)
        except KafkaConnectionError:
            if found:
                raise NotAuthenticatedError(found[-1]) from None
            raise
        finally:
            _REFUSED.reset(token)

    return bootstrapping


def _noting_hidden_topics(update: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(update)
    async def updating(self: AIOKafkaClient, cluster: Any, topics: Any) -> Any:
        done = await update(self, cluster, topics)
        hidden: Iterable[str] = cluster.unauthorized_topics
        if hidden:
            who = _user(self._sasl_plain_username, self._sasl_mechanism)
            REFUSALS.note(_not_allowed(who, "Describe", "topic", set(hidden)))
        return done

    return updating


def _reading_refusals(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    async def stepping(self: OAuthAuthenticator, payload: bytes | None) -> Any:
        # A broker that refuses a token answers with a text, and closes the connection after the client's next message
        # (RFC 7628, section 3.2.3). aiokafka takes any answer for a yes.
        if payload:
            raise SaslAuthenticationFailed(payload.decode(errors="replace"))
        return await step(self, payload)

    return stepping


def _user(username: str | None, mechanism: str | None) -> str:
    if username:
        return f"User:{username}"
    return "the subject of its token" if mechanism == "OAUTHBEARER" else "this process"
