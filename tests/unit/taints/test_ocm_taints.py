from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.taints.desired.ocm import (
    BUILT_IN,
    UNAVAILABLE,
    UNREACHABLE,
    BuiltInUpdate,
    built_in_taint,
    submitted,
    with_built_in,
)
from moorage_schemas.taint import Taint

THEN = datetime(2025, 12, 31, tzinfo=UTC)
LATER = datetime(2026, 1, 1, tzinfo=UTC)
MAINT = Taint(key="maint", effect="NoSelect", time_added=THEN)


@pytest.mark.parametrize(
    ("available", "expected"),
    [(None, UNREACHABLE), ("Unknown", UNREACHABLE), ("False", UNAVAILABLE), ("True", None)],
)
def test_the_built_in_taint_of_a_status(available: str | None, expected: Taint | None) -> None:
    assert built_in_taint(available) == expected
    update = with_built_in([MAINT], available)
    assert update == BuiltInUpdate((MAINT, *([expected] if expected else [])), expected, ())


@pytest.mark.parametrize("available", [None, "True", "False", "Unknown"])
@pytest.mark.parametrize("before", [None, "True", "False", "Unknown"])
def test_a_change_of_status_is_one_update(before: str | None, available: str | None) -> None:
    first = with_built_in([], before).taints
    update = with_built_in([MAINT, *first], available)
    wanted = built_in_taint(available)
    assert set(update.taints) == {MAINT, *([wanted] if wanted else [])}
    assert update.added == (wanted if wanted not in first else None)
    assert update.removed == tuple(taint for taint in first if taint != wanted)


def test_a_status_that_is_none_changes_nothing() -> None:
    assert with_built_in([UNAVAILABLE, MAINT], "Bogus") == BuiltInUpdate((UNAVAILABLE, MAINT), None, ())


def test_a_persons_taint_of_the_same_key_stays() -> None:
    theirs = UNREACHABLE.model_copy(update={"value": "x"})
    softer = UNREACHABLE.model_copy(update={"effect": "NoSelectIfNew"})
    assert with_built_in([theirs, softer], "True").taints == (theirs, softer)
    assert with_built_in([theirs, softer], None) == BuiltInUpdate((theirs, softer), None, ())
    assert with_built_in([softer], None).taints == (softer, UNREACHABLE)
    assert with_built_in([theirs], None, by_identity=False).taints == (theirs, UNREACHABLE)


TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from([UNAVAILABLE.key, UNREACHABLE.key, "maint"]),
        value=st.sampled_from(["", "x"]),
        effect=st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect"]),
        time_added=st.sampled_from([None, THEN, LATER]),
    ),
    unique_by=lambda taint: taint.identity,
    max_size=6,
)
STATUSES = st.sampled_from([None, "True", "False", "Unknown"])


@given(TAINTS, STATUSES)
def test_the_built_in_taints_settle_at_once(taints: list[Taint], available: str | None) -> None:
    update = with_built_in(taints, available)
    again = with_built_in(update.taints, available)
    assert again == BuiltInUpdate(update.taints, None, ())
    identities = [taint.identity for taint in update.taints]
    assert len(set(identities)) == len(identities)
    for taint in BUILT_IN:
        plain = any(one.identity == taint.identity and not one.value for one in update.taints)
        assert not plain or taint == built_in_taint(available)
    others = [taint for taint in taints if taint not in update.removed]
    assert list(update.taints[: len(others)]) == others


@given(TAINTS)
def test_on_a_create_every_time_is_the_systems(taints: list[Taint]) -> None:
    made = submitted(taints, None)
    assert made.refused == ()
    assert made.message == ""
    assert all(made.fresh)
    assert [taint.time_added for taint in made.taints] == [None] * len(taints)
    assert [(t.identity, t.value) for t in made.taints] == [(t.identity, t.value) for t in taints]


@given(TAINTS, st.booleans())
def test_what_is_submitted_as_it_was_keeps_its_time(taints: list[Taint], left_out: bool) -> None:  # noqa: FBT001 - drawn
    again = [t.model_copy(update={"time_added": None}) if left_out else t for t in taints]
    made = submitted(again, taints)
    assert made.refused == ()
    assert made.taints == tuple(taints)
    assert not any(made.fresh)


@pytest.mark.parametrize("time", [None, THEN, LATER])
def test_on_an_update_new_and_changed_taints_get_the_time_of_the_change(time: datetime | None) -> None:
    new = Taint(key="new", effect="NoSelect", time_added=time)
    changed = Taint(key="maint", effect="NoSelect", value="x", time_added=time)
    softer = Taint(key="maint", effect="PreferNoSelect", time_added=time)
    stays = MAINT.model_copy(update={"time_added": time})
    made = submitted([new, changed], [MAINT])
    assert made.refused == ()
    assert made.fresh == (True, True)
    assert [taint.time_added for taint in made.taints] == [None, None]
    assert [taint.value for taint in made.taints] == ["", "x"]
    made = submitted([stays, softer], [MAINT])
    assert made.fresh == (False, True)
    assert made.taints == (MAINT, softer.model_copy(update={"time_added": None}))


@pytest.mark.parametrize(
    "wrong",
    [
        MAINT.model_copy(update={"time_added": LATER}),
        MAINT.model_copy(update={"time_added": None}),
        MAINT.model_copy(update={"value": "x"}),
        Taint(key="maint", effect="NoSelectIfNew", time_added=THEN),
        Taint(key="new", effect="NoSelect", time_added=THEN),
    ],
)
def test_as_upstream_nobody_else_sets_the_time(wrong: Taint) -> None:
    other = Taint(key="other", effect="NoSelect", time_added=LATER)
    made = submitted([wrong, other], [MAINT], as_upstream=True)
    assert made.refused == (wrong.key, "other")
    assert made.message == f'It is not allowed to set TimeAdded of Taint "{wrong.key},other".'


def test_as_upstream_the_first_taint_of_the_key_counts() -> None:
    second = Taint(key="maint", effect="PreferNoSelect", time_added=THEN)
    assert submitted([MAINT, second], [MAINT, second]).fresh == (False, False)
    assert submitted([MAINT, second], [MAINT, second], as_upstream=True).refused == ("maint",)
