"""Flaws of what ties an object to others: its owners, its finalizers, and what an event is about."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import Starts

_NEWER = "events.k8s.io/v1"
_TIME = "2026-01-01T00:00:00.000000Z"
_POD = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}
_FINALIZERS: tuple[Any, ...] = (
    ["hold"],
    ["a.b/c"],
    ["not valid", "a/b/c", "kubernetes", "a.b.c"],
    ["orphan", "foregroundDeletion"],
    ["orphan", "hold", "a.b/c"],
    [""],
)
_OWNERS: tuple[Any, ...] = (
    [{}],
    [_POD],
    [{"apiVersion": "v1", "name": "x"}, {**_POD, "controller": True}, {**_POD, "name": "c", "controller": True}],
    [{**_POD, "kind": "Event"}],
    [{**_POD, "uid": ""}, {**_POD, "name": ""}],
    [{**_POD, "controller": True, "blockOwnerDeletion": False}] * 3,
)
_TIES: dict[str, tuple[Any, ...]] = {"metadata.finalizers": _FINALIZERS, "metadata.ownerReferences": _OWNERS}
_ABOUT: tuple[Any, ...] = (
    {"namespace": "other", "kind": "Pod", "name": "a"},
    {"kind": "Node", "name": "a"},
    {},
    None,
)
_NAMES = ("", "a b", "a/b/c", "x" * 129, "example.com/probe")
_REPORTED: dict[str, tuple[Any, ...]] = {
    "reportingInstance": _NAMES,
    "action": _NAMES,
    "reason": _NAMES,
    "eventTime": (None, _TIME),
    "type": (None, "Foo", "Warning"),
    "series": ({}, {"count": 1, "lastObservedTime": _TIME}, {"count": 2}, {"count": 3, "lastObservedTime": _TIME}),
    "related": ({"kind": "Pod", "namespace": "other"},),
}

STARTS: Starts = {
    "services": ({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}, _TIES),
    "events": (
        {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        },
        {
            **_REPORTED,
            "involvedObject": _ABOUT,
            "reportingComponent": _NAMES,
            "message": ("m" * 1025,),
            "source": ({"component": "c", "host": "h"},),
            "count": (-1, 3),
            "firstTimestamp": ("2026-01-01T00:00:00Z",),
        },
    ),
    "newer events": (
        {
            "apiVersion": _NEWER,
            "kind": "Event",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
            "eventTime": _TIME,
            "type": "Normal",
            "reason": "R",
            "action": "A",
            "reportingController": "example.com/probe",
            "reportingInstance": "i",
        },
        {
            **_TIES,
            **_REPORTED,
            "regarding": _ABOUT,
            "reportingController": _NAMES,
            "note": ("m" * 1025,),
            "deprecatedSource": ({"component": "c", "host": "h"}, {}),
            "deprecatedCount": (-1, 3),
            "deprecatedFirstTimestamp": ("2026-01-01T00:00:00Z",),
            "deprecatedLastTimestamp": ("2026-01-01T00:00:00Z",),
        },
    ),
}
