"""The trace context of an event: a trace always exists, and each event is a span of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_schemas.envelope import event_id
from moorage_schemas.trace_context import LENGTH, parse, span_id_of, trace_id_of, traceparent_of

INCOMING = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=60) | st.just(INCOMING))
def test_every_event_has_a_valid_context_whatever_it_came_with(identity: str, correlation: str, incoming: str) -> None:
    made = traceparent_of(identity, correlation, incoming)
    found = parse(made)
    assert found is not None
    assert (len(made), str(found)) == (LENGTH, made)
    assert found.span_id == span_id_of(identity)
    assert found.trace_id == (((known := parse(incoming)) and known.trace_id) or trace_id_of(correlation))


def test_ids_are_parts_of_those_of_events() -> None:
    identity, correlation = event_id("one"), event_id("first")
    assert traceparent_of(identity, correlation) == f"00-{correlation}-{identity[:16]}-01"
    assert traceparent_of(identity, correlation, INCOMING) == f"{INCOMING[:36]}{identity[:16]}-01"


def test_the_flag_of_the_one_who_began_the_trace_is_kept() -> None:
    assert traceparent_of("a", "b", INCOMING[:-2] + "00").endswith("-00")
    assert traceparent_of("a", "b", flags="00").endswith("-00")
    assert traceparent_of("a", "b", INCOMING, flags="00").endswith("-01")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "01" + INCOMING[2:],
        INCOMING.upper(),
        INCOMING + "-00",
        INCOMING[:-1],
        "00-" + "0" * 32 + INCOMING[35:],
        INCOMING[:36] + "0" * 16 + "-01",
        INCOMING.replace("4", "g"),
        INCOMING + "\n",
    ],
)
def test_what_is_not_a_context_is_none(wrong: str) -> None:
    assert parse(wrong) is None
