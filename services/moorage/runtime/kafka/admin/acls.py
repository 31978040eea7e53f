"""Kafka's access control lists: the operations of a principal on topics, groups, transactional ids and the cluster.

aiokafka 0.14 has the requests, but its client for administration has no methods for them. One request carries all
entries, where Kafka's own tool starts a Java program for each principal and resource.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.protocol.admin import CreateAclsRequest_v1, DeleteAclsRequest_v1, DescribeAclsRequest
from aiokafka.protocol.api import Request

from moorage.runtime.kafka.clients import clients
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings

_ANY: Final = 1
_ALLOW: Final = 3
_NO_AUTHORIZER: Final = 54
_KNOWN_WITHIN: Final = 30.0
_POLL: Final = 0.03
"""Seconds between two questions. Brokers learn of a change from their controller within half a second."""


class AclOperation(IntEnum):
    """The operations, by Kafka's numbers. Read and Write include Describe."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    @property
    def word(self) -> str:
        """The operation as Kafka's tools write it, such as `DescribeConfigs`."""
        return self.name.title().replace("_", "")


class AclResource(IntEnum):
    """The kinds of resources, by Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5

    @property
    def word(self) -> str:
        """The kind as Kafka's tools write it, such as `TransactionalId`."""
        return self.name.title().replace("_", "")

    @property
    def flag(self) -> str:
        """The flag of `kafka-acls` for it."""
        return "--" + self.name.lower().replace("_", "-")


class AclPattern(IntEnum):
    """How a name is compared, by Kafka's numbers."""

    LITERAL = 3
    PREFIXED = 4


@dataclass(frozen=True, order=True, slots=True)
class AclEntry:
    """One permission: a principal may do one thing from any host."""

    principal: str
    """Such as `User:moorage-timer`."""

    resource: AclResource
    name: str
    """The name of the resource, or the beginning of it."""

    pattern: AclPattern
    operation: AclOperation

    @property
    def shown_name(self) -> str:
        """The name. A `*` at its end stands for all names that begin so."""
        return self.name + "*" * (self.pattern is AclPattern.PREFIXED)

    def __str__(self) -> str:
        return f"{self.principal}: {self.operation.word} {self.resource.word} {self.shown_name}"


class _CreateAcls(Request[CreateAclsRequest_v1]):  # type: ignore[misc]  # aiokafka publishes no types
    API_KEY: ClassVar[int] = 30

    def __init__(self, entries: Collection[AclEntry]) -> None:
        self._entries = entries

    def build(self, request_struct_class: type[CreateAclsRequest_v1]) -> CreateAclsRequest_v1:
        return request_struct_class([_fields(entry) for entry in self._entries])


class _DeleteAcls(Request[DeleteAclsRequest_v1]):  # type: ignore[misc]  # as above
    API_KEY: ClassVar[int] = 31

    def __init__(self, entries: Collection[AclEntry]) -> None:
        self._entries = entries

    def build(self, request_struct_class: type[DeleteAclsRequest_v1]) -> DeleteAclsRequest_v1:
        return request_struct_class([_fields(entry) for entry in self._entries])


def _fields(entry: AclEntry) -> tuple[Any, ...]:
    kind, pattern, operation = int(entry.resource), int(entry.pattern), int(entry.operation)
    return (kind, entry.name, pattern, entry.principal, "*", operation, _ALLOW)


async def listed(settings: Settings, principals: Collection[str]) -> set[AclEntry]:
    """Return the permissions of these principals from any host. Entries that deny, or for one host, are left out.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        RuntimeFailure: the brokers have no authorizer.
    """
    async with clients.administration(settings) as admin:
        return await _listed(admin, principals)


async def _listed(admin: AIOKafkaAdminClient, principals: Collection[str]) -> set[AclEntry]:
    answer = await _send(admin, DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY))
    _check(answer.error_code, answer.error_message)
    found = set()
    for kind, name, pattern, entries in answer.resources:
        for principal, host, operation, permission in entries:
            if principal in principals and host == "*" and permission == _ALLOW and kind in set(AclResource):
                found |= _known(principal, kind, name, pattern, operation)
    return found


def _known(principal: str, kind: int, name: str, pattern: int, operation: int) -> set[AclEntry]:
    """Return an entry, or nothing if Moorage grants its operation to no principal, such as `All`."""
    try:
        return {AclEntry(principal, AclResource(kind), name, AclPattern(pattern), AclOperation(operation))}
    except ValueError:
        return set()


async def created(settings: Settings, entries: Collection[AclEntry]) -> None:
    """Grant permissions. Existing ones stay. Returns when a broker applies them.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: the broker has not applied them in time.
        RuntimeFailure: the brokers have no authorizer.
    """
    if not entries:
        return
    async with clients.administration(settings) as admin:
        answer = await _send(admin, _CreateAcls(entries))
        for code, why in answer.creation_responses:
            _check(code, why)
        wanted, principals = set(entries), {entry.principal for entry in entries}
        async with asyncio.timeout(_KNOWN_WITHIN):
            while not wanted <= await _listed(admin, principals):  # noqa: ASYNC110 - a broker reports no event
                await asyncio.sleep(_POLL)


async def deleted(settings: Settings, entries: Collection[AclEntry]) -> None:
    """Allow something no longer.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        RuntimeFailure: the brokers have no authorizer.
    """
    if not entries:
        return
    async with clients.administration(settings) as admin:
        answer = await _send(admin, _DeleteAcls(entries))
    for code, why, _ in answer.filter_responses:
        _check(code, why)


async def _send(admin: AIOKafkaAdminClient, request: Any) -> Any:
    return await admin._send_to_controller(request)  # noqa: SLF001 - aiokafka has no public method for these requests


def _check(code: int, why: str | None) -> None:
    if code == _NO_AUTHORIZER:
        raise RuntimeFailure(
            "the brokers have no authorizer, so that every client may do everything: set authorizer.class.name to "
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
    if code:
        raise for_code(code)(why or "")


def tool_commands(entries: Iterable[AclEntry], servers: str) -> list[str]:
    """Return the commands of Kafka's own tool that allow the same, one for each principal and resource."""
    together: dict[tuple[str, AclResource, str, AclPattern], list[str]] = {}
    for entry in sorted(entries):
        place = (entry.principal, entry.resource, entry.name, entry.pattern)
        together.setdefault(place, []).append(f"--operation {entry.operation.word}")
    return [
        f"kafka-acls --bootstrap-server {servers or 'localhost:9092'} --command-config admin.properties --add "
        f"--allow-principal '{principal}' {' '.join(operations)} {resource.flag}"
        + ("" if resource is AclResource.CLUSTER else f" '{name}' --resource-pattern-type {pattern.name.lower()}")
        for (principal, resource, name, pattern), operations in together.items()
    ]
