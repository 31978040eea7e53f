"""Topics are created while brokers stop and start."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    NotControllerError,
    TopicAuthorizationFailedError,
)

from moorage.runtime.kafka.admin import topics_admin
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process.failures import TopicsError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TAINTS


class Admin:
    """An admin client whose requests fail as the test specifies."""

    def __init__(self, *failures: Exception, creates: Sequence[int] = ()) -> None:
        self.failures = list(failures)
        self.creates = list(creates)
        self.made: set[str] = set()
        self.closed = False

    async def start(self) -> None:
        """Do nothing. It is connected."""

    async def close(self) -> None:
        self.closed = True

    async def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        if self.failures:
            raise self.failures.pop(0)
        part = {"leader": 1, "error_code": 0}
        return [
            {"error_code": 0 if name in self.made else 3, "topic": name, "partitions": [part] * (name in self.made)}
            for name in names
        ]

    async def create_topics(self, topics: Sequence[Any]) -> Any:
        code = self.creates.pop(0) if self.creates else 0
        if not code:
            self.made.update(topic.name for topic in topics)
        return SimpleNamespace(topic_errors=[(topic.name, code, "") for topic in topics])


def ensure(monkeypatch: pytest.MonkeyPatch, admin: Admin) -> dict[str, int]:
    monkeypatch.setattr(clients, "admin_client", lambda _settings: admin)
    monkeypatch.setattr(topics_admin, "_TRY_AGAIN", 0.0)
    return asyncio.run(topics_admin.ensure_topics(Settings(partitions=1, replication_factor=1), (TAINTS,)))


def test_a_broker_that_resets_the_connection_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(KafkaConnectionError("reset"), NodeNotReadyError(), ConnectionResetError())
    assert ensure(monkeypatch, admin) == {"taints": 1}
    assert admin.closed


def test_making_is_tried_again_while_there_is_no_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ensure(monkeypatch, Admin(creates=[NotControllerError.errno])) == {"taints": 1}


def test_what_does_not_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(TopicAuthorizationFailedError())
    with pytest.raises(TopicAuthorizationFailedError):
        ensure(monkeypatch, admin)
    assert admin.closed
    with pytest.raises(TopicsError, match="could not be created: InvalidReplicationFactorError"):
        ensure(monkeypatch, Admin(creates=[38]))


def test_it_does_not_try_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_admin, "_READY_TIMEOUT", 0.0)
    with pytest.raises(KafkaError):
        ensure(monkeypatch, Admin(KafkaConnectionError("reset"), KafkaConnectionError("reset")))
