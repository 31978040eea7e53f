"""`DeadLetter` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Fields, Pair, Related, Section, time_and_age
from moorage.decide.kubernetes.unstructured import at

REPLAY: Final = "replay"
"""The subresource that sends the original again."""

_SOURCE: Final = "status.headers.ce_source"


def _source(found: Object) -> str:
    return str(at(found, "status", "headers", "ce_source") or NONE)


def _place(found: Object) -> str:
    topic, partition, offset = (at(found, "status", field) for field in ("topic", "partition", "offset"))
    return f"{topic}/{partition}@{offset}"


class DeadLetterKind(View):
    """A record that was refused, with the reason and the original."""

    kind = "DeadLetter"
    plural = "deadletters"
    short_names = ("dl",)
    namespaced = False
    order = 2035
    watched = False
    made_from = "dead-letters"
    kept = False
    field_selectors = MappingProxyType(
        dict.fromkeys(("status.service", "status.reason", "status.topic", "status.key", "status.value", _SOURCE), "")
    )
    field_aliases = MappingProxyType(
        {
            "service": "status.service",
            "reason": "status.reason",
            "topic": "status.topic",
            "key": "status.key",
            "value": "status.value",
            "source": _SOURCE,
        }
    )
    columns = (
        TableColumn("SERVICE", text("status", "service")),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("TOPIC", text("status", "topic")),
        TableColumn("KEY", text("status", "key")),
        TableColumn("SOURCE", of(_source)),
        AGE,
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )

    @property
    @override
    def subresources(self) -> tuple[str, ...]:
        return (REPLAY,)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        status = at(found, "status") or {}
        yield Pair("Service", status.get("service"))
        yield Pair("Refused", time_and_age(status.get("refusedTime"), now))
        yield Pair("Reason", status.get("reason"))
        yield Pair("Message", status.get("message"))
        original = {
            "record": _place(found),
            "key": status.get("key"),
            "size": status.get("originalSize"),
            "truncated": status.get("truncated"),
            "encoding": status.get("originalEncoding"),
            "headers": status.get("headers") or {},
            "value": status.get("original"),
        }
        yield Fields("Original", original)


KIND = DeadLetterKind()
