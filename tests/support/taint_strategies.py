"""Hypothesis strategies for taints and tolerations with few distinct words, so that many match."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from moorage_schemas.taint import Taint, Toleration

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "x", "5", "-7", "007", "9223372036854775807", "9223372036854775808"])
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
START = datetime(2026, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 10**6).map(lambda n: START + timedelta(milliseconds=n))

TAINTS = st.builds(Taint, key=KEYS, value=VALUES, effect=EFFECTS | st.just("Other"), time_added=INSTANTS)
TOLERATIONS = st.builds(
    Toleration,
    key=KEYS | st.just(""),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "other"]),
    value=VALUES,
    effect=EFFECTS | st.just(""),
    toleration_seconds=st.none() | st.integers(-5, 500),
)
TAINT_LISTS = st.lists(TAINTS, max_size=5, unique_by=lambda t: t.identity)
TOLERATION_LISTS = st.lists(TOLERATIONS, max_size=4)
