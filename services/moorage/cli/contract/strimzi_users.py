"""Permissions in Kafka as the KafkaUsers of Strimzi, whose operator makes the users and their ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from moorage.runtime.kafka.acls import AclEntry, AclPattern, AclResource

API_VERSION: Final = "kafka.strimzi.io/v1"
CLUSTER_LABEL: Final = "strimzi.io/cluster"

_KINDS: Final = {
    AclResource.TOPIC: "topic",
    AclResource.GROUP: "group",
    AclResource.CLUSTER: "cluster",
    AclResource.TRANSACTIONAL_ID: "transactionalId",
}
_PATTERNS: Final = {AclPattern.LITERAL: "literal", AclPattern.PREFIXED: "prefix"}


def kafka_users(entries: Iterable[AclEntry], cluster: str) -> list[dict[str, Any]]:
    """Return a KafkaUser for each principal, by name. Each shows a certificate, which Strimzi makes and renews.

    Args:
        entries: what the principals may do.
        cluster: the name of the Kafka, as in Strimzi's label.
    """
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "KafkaUser",
            "metadata": {"name": name_of(principal), "labels": {CLUSTER_LABEL: cluster}},
            "spec": {
                "authentication": {"type": "tls"},
                "authorization": {"type": "simple", "acls": [_rule(*one) for one in _by_resource(own)]},
            },
        }
        for principal, own in groupby(sorted(entries), key=lambda entry: entry.principal)
    ]


def name_of(principal: str) -> str:
    """The name of the KafkaUser of a principal, such as `moorage-timer` of `User:moorage-timer`."""
    return principal.partition(":")[2].removeprefix("CN=")


def _by_resource(entries: Iterable[AclEntry]) -> Iterable[tuple[AclEntry, list[str]]]:
    for _, alike in groupby(entries, key=lambda entry: (entry.resource, entry.name, entry.pattern)):
        first, *others = alike
        yield first, [entry.operation.word for entry in (first, *others)]


def _rule(entry: AclEntry, operations: list[str]) -> dict[str, Any]:
    resource = {"type": _KINDS[entry.resource]}
    if entry.resource is not AclResource.CLUSTER:  # there is only one
        resource |= {"name": entry.name, "patternType": _PATTERNS[entry.pattern]}
    return {"resource": resource, "operations": operations}
