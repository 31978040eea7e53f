"""The trace of an eviction, among the spans that a collector has received."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tests.support.otlp_collector import ReceivedSpan

CHAIN: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("send condition-reports", {"moorage.condition": "Ready", "moorage.status": "False"}),
    ("send conditions", {}),
    ("send taints", {}),
    ("send timer-fired", {}),
    ("send evictions", {"moorage.state": "Requested"}),
    ("send workload-conditions", {}),
    ("send evictions", {"moorage.state": "Completed"}),
)
"""From the report over the deadline to the acknowledgement and the end: names of spans, some of their attributes."""


def trace_of(spans: Iterable[ReceivedSpan], workload: str) -> str:
    """Return the id of the trace in which the eviction of a workload was completed. Empty if there is none."""
    wanted = {"moorage.workload": workload, "moorage.state": "Completed"}
    for span in spans:
        if span.name == "send evictions" and wanted.items() <= span.attributes.items():
            return span.trace_id
    return ""


def chain_of(spans: Mapping[str, ReceivedSpan], workload: str) -> list[ReceivedSpan]:
    """Return the spans of one trace from its root to the end of the eviction of a workload."""
    wanted = {"moorage.workload": workload, "moorage.state": "Completed"}
    last = next(
        (one for one in spans.values() if one.name == "send evictions" and wanted.items() <= one.attributes.items()),
        None,
    )
    found: list[ReceivedSpan] = []
    while last is not None:
        found.insert(0, last)
        last = spans.get(last.parent_id)
    return found


def missing(chain: Iterable[ReceivedSpan]) -> list[str]:
    """Return the steps of `CHAIN` that do not follow each other in a chain of spans."""
    left = list(CHAIN)
    for span in chain:
        name, attributes = left[0] if left else ("", {})
        if span.name == name and attributes.items() <= span.attributes.items():
            left.pop(0)
    return [f"{name} {attributes or ''}".strip() for name, attributes in left]


def text(chain: Iterable[ReceivedSpan]) -> str:
    """Return a chain as lines: milliseconds since the first one, service, span, and what it is about."""
    lines, begin = [], 0
    for span in chain:
        begin = begin or span.begin
        about = (f"{name.partition('.')[2]}={value}" for name, value in span.attributes.items() if "moorage." in name)
        lines.append(f"{(span.begin - begin) / 1e6:9.1f} ms  {span.service:26} {span.name:24} {' '.join(about)}")
    return "\n".join(lines) + "\n"
