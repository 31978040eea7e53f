"""Requests refused by authentication or authorization: records in `audit`, written in the background.

The first one of a kind is written at once. Those that follow within a few seconds are one record with their number, so
that a flood of them fills no topic.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import structlog
from starlette.requests import Request

from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.durable_log import Log, Write
from moorage.apiserver.writing.object_records import SOURCE
from moorage.decide.kubernetes.attributes import Attributes, User
from moorage.runtime.process.clock import Clock
from moorage.runtime.process.failures import restarted
from moorage_schemas.dead_letter import Audited
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.topics import AUDIT

_log = structlog.get_logger(__name__)

PAUSE_SECONDS: Final = 5.0
"""Seconds between two records of the same refusal."""

WAITING: Final = 1_000
"""How many different refusals wait to be written. Further ones are only logged and counted."""

_LONGEST: Final = 512
_UNAUTHENTICATED: Final = 401


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The fields that make two refusals the same."""

    user: str
    verb: str
    resource: str
    code: int
    address: str


class RefusedRequests:
    """Records refusals."""

    def __init__(self, log: Log, clock: Clock, metrics: Metrics) -> None:
        self._log = log
        self._clock = clock
        self._metrics = metrics
        self._waiting: dict[_Refusal, Audited] = {}
        self._counts: Counter[_Refusal] = Counter()
        self._woken = asyncio.Event()

    def tell(self, request: Request, user: User | None, code: int, why: str, asked: Attributes | None = None) -> None:
        """Record that a request was refused. `why` is the reason, without credentials."""
        name = user.name if user is not None else ""
        verb = asked.verb if asked is not None else request.method.lower()
        resource = request.url.path if asked is None or not asked.is_of_objects else _resource(asked)
        address = request.client.host if request.client is not None else ""
        key = _Refusal(name[:_LONGEST], verb, resource[:_LONGEST], code, address)
        self._metrics.refused.labels(str(code)).inc()
        if key in self._waiting:
            self._counts[key] += 1
        elif len(self._waiting) < WAITING:
            _log.warning(
                "request.refused", user=key.user, verb=verb, resource=key.resource, code=code, why=why, address=address
            )
            self._counts[key] = 1
            self._waiting[key] = Audited(
                actor=key.user,
                user=key.user,
                groups=list(user.groups) if user is not None else [],
                address=address,
                verb=verb,
                resource=key.resource,
                outcome="unauthenticated" if code == _UNAUTHENTICATED else "forbidden",
                reason=why[:_LONGEST],
                time=self._clock.now(),
            )
            self._woken.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write them within the context."""
        task = asyncio.create_task(restarted("refused requests", self._run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            waiting, self._waiting = self._waiting, {}
            counts, self._counts = self._counts, Counter()
            writes = [
                _write(audited.model_copy(update={"count": counts[key]}), number)
                for number, (key, audited) in enumerate(waiting.items())
            ]
            try:
                await self._log.report(writes)
            except StatusError as error:
                # They are in the log of the process, and no caller waits for them: a growing queue is not worth it.
                _log.warning("refusals.not_audited", count=len(writes), why=error.message)
            await asyncio.sleep(PAUSE_SECONDS)


def _write(audited: Audited, number: int) -> Write:
    identity = event_id("refused", audited.user, audited.verb, audited.resource, audited.time, number, uuid4())
    meta = Meta(id=identity, source=SOURCE, type=AUDIT.event_type, time=audited.time, subject=audited.resource)
    return Write(AUDIT, audited.resource, audited.resource, audited, meta)


def _resource(asked: Attributes) -> str:
    """Return the requested resource, in the form of `kubectl`: `pods.apps/log shop/web`."""
    group = f".{asked.group}" if asked.group else ""
    below = f"/{asked.subresource}" if asked.subresource else ""
    place = "/".join(part for part in (asked.namespace, asked.name) if part)
    return f"{asked.resource}{group}{below} {place}".rstrip()
