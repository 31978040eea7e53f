"""How reports reach Moorage: over HTTP to the gateway, or straight into the topic."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import httpx
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, TopicAuthorizationFailedError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker

from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import to_structured
from moorage_schemas.topics import DEAD_LETTERS
from moorage_sdk.errors import PartlySentError, Refusal, TransportError
from moorage_sdk.faststream import MoorageTopics, ReportPublisher, moorage_broker
from moorage_sdk.http import client, no_answer, refused_request, retry_after
from moorage_sdk.outbox import Report
from moorage_sdk.settings import Connection
from moorage_sdk.signing import signer_of

_log = logging.getLogger(__name__)

BATCH = "application/cloudevents-batch+json"
_FINAL = range(400, 500)
_TRIED_AGAIN = frozenset(
    {
        *(httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED),
        *(httpx.codes.REQUEST_TIMEOUT, httpx.codes.CONFLICT, httpx.codes.TOO_EARLY, httpx.codes.TOO_MANY_REQUESTS),
    }
)


class Sender(Protocol):
    """Sends reports. It is used by one task at a time."""

    async def start(self) -> None:
        """Open connections, if possible."""

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        """Send reports. Those that are not among the refusals are durable when it returns.

        Raises:
            TransportError: some or all were not sent, or it is not known. The same reports may be sent again.
            PartlySentError: as above, and it is known which.
            SdkError: nothing can be sent at all, as with a token that is wrong.
        """

    async def stop(self) -> None:
        """Close connections."""


class HttpSender:
    """Sends batches to `POST /v1/conditions`.

    Args:
        connection: the gateway's address and the token.
        transport: replaces the network, in tests.
    """

    def __init__(self, connection: Connection, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._connection = connection
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._has_worked = False

    async def start(self) -> None:
        """See `Sender`."""
        self._client = client(self._connection, self._transport)

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        """See `Sender`."""
        if self._client is None:
            raise TransportError("the sender is not started")
        body = [to_structured(report.meta, report.event) for report in reports]
        headers = {"content-type": BATCH}
        try:
            answer = await self._client.post("/v1/conditions", json=body, headers=headers)
        except httpx.HTTPError as error:
            raise no_answer(self._connection, error) from None
        document = _document(answer)
        if document.get("kind") == "ReportOutcomeList":
            self._has_worked = True
            return _refusals(document, reports, retry_after(answer))
        code, message = answer.status_code, str(document.get("message") or answer.text[:200] or answer.reason_phrase)
        if code in _FINAL and code not in _TRIED_AGAIN:
            reason = str(document.get("reason") or code)
            return [Refusal(report.meta.id, reason, message, report.subject) for report in reports]
        raise refused_request(self._connection, answer, message, has_worked=self._has_worked)

    async def stop(self) -> None:
        """See `Sender`."""
        if self._client is not None:
            await self._client.aclose()


def _document(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refusals(document: dict[str, Any], reports: Sequence[Report], wait: float | None) -> list[Refusal]:
    """The items that do not count.

    Raises:
        PartlySentError: some items are more than the source may report now. Only they are to be sent again, because
            the others would use up the limit once more.
    """
    found: list[Refusal] = []
    again: dict[str, str] = {}
    for item in document.get("items") or []:
        outcome, report = item.get("outcome"), reports[int(item.get("index", 0))]
        status = item.get("status") or {}
        if outcome == "Refused" and status.get("code") == httpx.codes.TOO_MANY_REQUESTS:
            again[report.meta.id] = str(status.get("message", ""))
        elif outcome == "Refused":
            reason, message = str(status.get("reason") or status.get("code")), str(status.get("message", ""))
            found.append(Refusal(report.meta.id, reason, message, report.subject))
        elif outcome == "Ignored":
            message = str(item.get("message") or item.get("reason") or status.get("message", ""))
            found.append(Refusal(report.meta.id, "Ignored", message, report.subject, is_ignored=True))
    if again:
        message = f"{len(again)} of {len(reports)} reports are too many now: {next(iter(again.values()))}"
        raise PartlySentError(message, wait, again=again, refused=found)
    return found


class KafkaSender:
    """Writes to `condition-reports`, and reads refusals from `dead-letters` on request.

    Args:
        connection: Kafka's address and the user.
        source: the source of the reports. Refusals of other sources are passed over.
        on_refusal: called with each refusal that is read. None reads none, and so does a user who may not read them.

    Raises:
        SdkError: the key that signs reports cannot be read.
    """

    def __init__(
        self, connection: Connection, source: str, on_refusal: Callable[[Refusal], None] | None = None
    ) -> None:
        self._connection = connection
        self._source = source
        self._on_refusal = on_refusal
        self._reads_refusals = on_refusal is not None
        signer_of(connection)  # an error of the key is final, and those of `start` are tried again
        self._broker: KafkaBroker | None = None

    async def start(self) -> None:
        """See `Sender`."""
        self._broker = await self._open()

    async def _open(self) -> KafkaBroker:
        # FastStream would log each record.
        opened = moorage_broker(self._connection, client_id=self._source, logger=None)
        topics = MoorageTopics(opened, self._connection)
        self._publisher = topics.reports(self._source)
        if self._reads_refusals:

            @topics.subscriber(DEAD_LETTERS, auto_offset_reset="latest", ack_policy=AckPolicy.ACK)
            async def on_dead_letter(letter: DeadLettered) -> None:
                self._note(letter)

        try:
            await opened.start()
        except (KafkaError, OSError) as error:
            with contextlib.suppress(KafkaError, OSError):
                await opened.stop()
            if self._reads_refusals and isinstance(error, TopicAuthorizationFailedError):
                # Whoever may read them sees those of all probes, so a probe usually may not.
                self._reads_refusals = False
                _log.warning("refusals are not told, because this user may not read the topic dead-letters of Kafka")
                return await self._open()
            raise TransportError(f"Kafka does not answer at {self._connection.bootstrap_servers}: {error}") from error
        return opened

    def _note(self, letter: DeadLettered) -> None:
        if self._on_refusal is not None and letter.headers.get("ce_source") == self._source:
            refusal = Refusal(letter.headers.get("ce_id", ""), letter.reason.value, letter.message, letter.key)
            self._on_refusal(refusal)

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        """See `Sender`."""
        if self._broker is None:
            self._broker = await self._open()
        publisher: ReportPublisher = self._publisher
        results = await asyncio.gather(
            *(publisher.publish(report.event, report.meta) for report in reports), return_exceptions=True
        )
        refused: list[Refusal] = []
        for report, result in zip(reports, results, strict=True):
            if isinstance(result, MessageSizeTooLargeError):
                refused.append(Refusal(report.meta.id, "TooLarge", str(result), report.subject))
            elif isinstance(result, KafkaError | OSError):
                raise TransportError(f"Kafka does not take the report: {result}") from result
            elif isinstance(result, BaseException):
                raise result
        return refused

    async def stop(self) -> None:
        """See `Sender`."""
        if self._broker is not None:
            await self._broker.stop()


def sender_of(connection: Connection, source: str, on_refusal: Callable[[Refusal], None] | None) -> Sender:
    """The sender for a connection."""
    if connection.uses_kafka:
        return KafkaSender(connection, source, on_refusal)
    return HttpSender(connection)
