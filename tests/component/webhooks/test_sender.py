"""One attempt to send an event, to a receiver on loopback."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from tests.support.certificates import Authority
from tests.support.receivers import HANG, SECRET, Receiver, receiving

from moorage.runtime.process.clock import WallClock
from moorage.workers.webhooks.deliveries import Delivery
from moorage.workers.webhooks.sender import Outcome, Sender, retry_after
from moorage_schemas.resources.webhook import WebhookSpec
from moorage_schemas.topics import BINDINGS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = Delivery("id1", "w", TopicPartition("t", 0), 0, NOW, BINDINGS, None, b'{"a":1}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ops").write_text(SECRET)
    return tmp_path


@asynccontextmanager
async def sender(folder: Path, url: str, *, ca_file: str = "", **fields: Any) -> AsyncIterator[Sender]:
    given = {"url": url, "secretFile": "ops", "allowPrivate": True} | fields
    made = Sender(WebhookSpec.model_validate(given), str(folder), WallClock(), ca_file=ca_file)
    try:
        yield made
    finally:
        await made.close()


async def attempt(folder: Path, receiver: Receiver, **fields: Any) -> Outcome:
    async with sender(folder, receiver.url, **fields) as made:
        return await made.send(EVENT)


async def test_an_event_is_signed_and_taken(folder: Path) -> None:
    async with receiving() as receiver:
        assert await attempt(folder, receiver) == Outcome(delivered=True)
        (taken,) = receiver.taken
        assert taken.body == EVENT.body
        assert taken.headers["content-type"] == "application/cloudevents+json"
        assert taken.headers["host"] == f"127.0.0.1:{receiver.port}"
        assert taken.id == "id1"
        assert taken.is_signed()


async def test_a_name_is_sent_and_its_checked_address_connected_to(folder: Path) -> None:
    asked: list[str] = []

    async def look_up(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with receiving() as receiver:
        url = f"http://hooks.example.com:{receiver.port}/hook"
        fields = {"url": url, "secretFile": "ops", "allowPrivate": True, "allowInsecure": True}
        made = Sender(WebhookSpec.model_validate(fields), str(folder), WallClock(), look_up=look_up)
        assert (await made.send(EVENT)).delivered
        await made.close()
        assert receiver.taken[0].headers["host"] == f"hooks.example.com:{receiver.port}"
        assert asked == ["hooks.example.com"]


async def test_a_certificate_has_to_be_of_an_authority_that_is_known(folder: Path) -> None:
    own, other = Authority(folder / "own"), Authority(folder / "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*own.sign("receiver"))
    async with receiving(tls=context) as receiver:
        assert receiver.url.startswith("https://")
        async with sender(folder, receiver.url, ca_file=str(own.certificate)) as made:
            assert await made.send(EVENT) == Outcome(delivered=True)
        # The system's authorities do not know it either.
        for ca_file in (str(other.certificate), ""):
            async with sender(folder, receiver.url, ca_file=ca_file) as made:
                outcome = await made.send(EVENT)
                assert not outcome.delivered
                assert "CERTIFICATE_VERIFY_FAILED" in outcome.message
        # A certificate of a known authority for another name does not count either.
        url = f"https://localhost:{receiver.port}/hook"
        async with sender(folder, url, ca_file=str(own.certificate)) as made:
            assert "CERTIFICATE_VERIFY_FAILED" in (await made.send(EVENT)).message
        assert len(receiver.requests) == 1


async def test_both_secrets_sign_while_one_is_replaced(folder: Path) -> None:
    other = "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
    async with receiving() as receiver, sender(folder, receiver.url) as made:
        await made.send(EVENT)
        (folder / "ops").write_text(f"{other}\n{SECRET}")
        await made.send(EVENT)
        assert [(one.is_signed(), one.is_signed(other)) for one in receiver.taken] == [(True, False), (True, True)]


@pytest.mark.parametrize(("status", "gone"), [(500, False), (404, False), (302, False), (410, True)])
async def test_other_answers_are_failures(folder: Path, status: int, *, gone: bool) -> None:
    async with receiving() as elsewhere, receiving() as receiver:
        receiver.answer = lambda _: (status, {"location": elsewhere.url})
        outcome = await attempt(folder, receiver)
        assert outcome == Outcome(delivered=False, message=f"the receiver answered {status}", gone=gone)
        assert elsewhere.requests == [], "a redirect is not followed"


@pytest.mark.parametrize(("status", "waits"), [(429, 17.0), (503, 17.0), (500, 0.0)])
async def test_retry_after_counts_for_those_that_ask_to_wait(folder: Path, status: int, waits: float) -> None:
    async with receiving() as receiver:
        receiver.answer = lambda _: (status, {"retry-after": "17"})
        assert (await attempt(folder, receiver)).retry_after == waits


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("999999", 3600),
        ("Thu, 01 Jan 2026 00:00:20 GMT", 20),
        ("Thu, 01 Jan 2025 00:00:20 GMT", 0),
        ("", 0),
        ("soon", 0),
        ("-3", 0),
    ],
)
def test_forms_of_retry_after(text: str, seconds: float) -> None:
    assert retry_after(text, NOW) == seconds


async def test_a_receiver_that_hangs_is_left_after_the_timeout(folder: Path) -> None:
    async with receiving() as receiver:
        receiver.answer = lambda _: HANG
        outcome = await attempt(folder, receiver, timeoutSeconds=1)
        assert outcome == Outcome(delivered=False, message="no answer within 1 s")


async def test_nothing_is_sent_to_a_private_address_without_leave(folder: Path) -> None:
    async with receiving() as receiver:
        outcome = await attempt(folder, receiver, allowPrivate=False)
        assert outcome.message == "127.0.0.1 has the address 127.0.0.1, which needs allowPrivate"
        assert receiver.requests == []


async def test_a_proxy_of_the_environment_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as proxy, receiving() as receiver:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert (await attempt(folder, receiver)).delivered
        assert proxy.requests == []


async def test_a_missing_secret_or_receiver_is_a_failure_that_says_so(folder: Path) -> None:
    async with receiving() as receiver:
        outcome = await attempt(folder, receiver, secretFile="missing")
        assert outcome.message == "secretFile missing: No such file or directory"
        assert receiver.requests == [], "nothing is sent without a signature"
        url = receiver.url
    async with sender(folder, url) as made:
        assert (await made.send(EVENT)).message.startswith("ConnectError")
