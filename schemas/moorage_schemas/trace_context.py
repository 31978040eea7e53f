"""The W3C trace context of events.

Each event is one span, whose id is made from the event's id. Its `traceparent` names that span, so that a reader
continues the trace after it. Its parent is the span of its cause, or the one that a request came with.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from moorage_schemas.envelope import id_of

LENGTH: Final = 55
"""The characters of a `traceparent`."""

SAMPLED: Final = "01"
NOT_SAMPLED: Final = "00"
"""The flags of a trace."""

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"(?!0{16})[0-9a-f]{32}")


class TraceContext(NamedTuple):
    """The parts of a `traceparent`."""

    trace_id: str
    span_id: str
    flags: str

    @property
    def is_sampled(self) -> bool:
        """Whether the beginner of the trace records it."""
        return bool(int(self.flags, 16) & 1)

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def parse(traceparent: str) -> TraceContext | None:
    """Parse a `traceparent`; None if it is empty or invalid, or of another version."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return TraceContext(*found.groups()) if found is not None else None


def trace_id_of(correlation: str) -> str:
    """Return the trace id of a chain that did not come with one: its correlation id, or a hash of it."""
    return correlation if _TRACE_ID.fullmatch(correlation) else id_of(f"trace\x1f{correlation}")


def span_id_of(event_id: str) -> str:
    """Return the id of the span of an event: half of its id, or of a hash of it."""
    return (event_id if _SPAN_ID.fullmatch(event_id) else id_of(f"span\x1f{event_id}"))[:16]


def traceparent_of(event_id: str, correlation: str, incoming: str = "", *, flags: str = SAMPLED) -> str:
    """Return the `traceparent` of an event.

    Args:
        event_id: its id.
        correlation: the correlation id of its chain, which determines the trace if none came with the cause.
        incoming: the `traceparent` of its cause, or of the request that it came with.
        flags: the flags of a trace that begins here.
    """
    found = parse(incoming)
    trace_id, flags = (found.trace_id, found.flags) if found is not None else (trace_id_of(correlation), flags)
    return str(TraceContext(trace_id, span_id_of(event_id), flags))
