from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from tests.support.taint_strategies import TAINT_LISTS

from moorage.decide.taints.eviction_verdict import taint_text
from moorage.decide.taints.kubectl_syntax import TaintSpecError, TaintSpecs, apply_specs, parse_taints, set_taints
from moorage_schemas.taint import Taint

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = datetime(2026, 1, 2, tzinfo=UTC)
KEY1 = Taint(key="key1", value="value1", effect="NoSchedule", time_added=T0)
KEY1_EXECUTE = Taint(key="key1", value="value1", effect="NoExecute", time_added=T0)
KEY2 = Taint(key="key2", effect="NoSchedule", time_added=T0)


def test_the_forms_of_a_spec() -> None:
    found = parse_taints(["key1=value1:NoSchedule", "x.io/k:NoExecute", "e=:PreferNoSchedule", "g:NoSchedule-", "h-"])
    assert found == TaintSpecs(
        add=(
            Taint(key="key1", value="value1", effect="NoSchedule"),
            Taint(key="x.io/k", effect="NoExecute"),
            Taint(key="e", effect="PreferNoSchedule"),
        ),
        remove=(Taint(key="g", effect="NoSchedule"), Taint(key="h", effect="")),
    )


def test_the_value_of_a_removal_does_not_matter() -> None:
    assert parse_taints(["key1=value1:NoSchedule-"]).remove == (Taint(key="key1", effect="NoSchedule"),)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["key1"], "invalid taint spec: key1"),
        (["a:b:NoSchedule"], "invalid taint spec: a:b:NoSchedule"),
        (["a=b=c:NoSchedule"], "invalid taint spec: a=b=c:NoSchedule"),
        (["a=b:Never"], "invalid taint effect: Never, unsupported taint effect"),
        (["a:"], "invalid taint effect: , unsupported taint effect"),
        (
            ["a=1:NoSchedule", "a=2:NoSchedule"],
            "duplicated taints with the same key and effect: {a 2 NoSchedule <nil>}",
        ),
        (
            [f"{'k' * 64}:NoSchedule"],
            f"invalid taint spec: {'k' * 64}:NoSchedule, name part must be no more than 63 bytes",
        ),
    ],
)
def test_what_cannot_be_read(specs: list[str], message: str) -> None:
    with pytest.raises(TaintSpecError) as caught:
        parse_taints(specs)
    assert str(caught.value) == message


def test_adding_what_is_there_changes_nothing() -> None:
    found = set_taints([KEY1], [Taint(key="key1", value="other", effect="NoSchedule")], [], added_at=T1)
    assert found.taints == (KEY1,)
    assert not any(found.fresh)
    assert not found.removed


def test_overwriting_takes_value_and_time_and_keeps_the_place() -> None:
    new = Taint(key="key1", value="other", effect="NoSchedule")
    found = set_taints([KEY1, KEY2], [new], [], overwrite=True, added_at=T1)
    assert found.taints == (new.model_copy(update={"time_added": T1}), KEY2)
    assert found.fresh == (True, False)


def test_removing_by_key_takes_every_effect() -> None:
    found = set_taints([KEY1, KEY1_EXECUTE, KEY2], [], [Taint(key="key1", effect="")])
    assert found.taints == (KEY2,)
    assert found.removed == (KEY1, KEY1_EXECUTE)


def test_kubectls_refusals() -> None:
    def message(current: list[Taint], *specs: str) -> str:
        with pytest.raises(TaintSpecError) as caught:
            apply_specs("node n1", current, parse_taints(specs))
        return str(caught.value)

    assert message([KEY1], "key1=v:NoSchedule") == (
        "node n1 already has key1 taint(s) with same effect(s) and --overwrite is false"
    )
    assert message([KEY1, KEY2], "key1=v:NoSchedule", "key2:NoSchedule").startswith("node n1 already has key1,key2 ")
    assert message([KEY2], "key1-") == 'taint "key1" not found'
    assert message([KEY1], "key1:NoExecute-") == 'taint "key1:NoExecute" not found'
    assert message([], "a-", "b:NoExecute-") == '[taint "a" not found, taint "b:NoExecute" not found]'
    assert message([KEY1], "key1:NoExecute", "key1-") == (
        "can not both modify and remove the following taint(s) in the same command: key1="
    )
    assert message([KEY1]) == "at least one taint update is required"


def test_overwrite_and_other_effects_are_no_conflict() -> None:
    assert apply_specs("node n1", [KEY1], parse_taints(["key1=v:NoSchedule"]), overwrite=True).fresh == (True,)
    found = apply_specs("node n1", [KEY1], parse_taints(["key1=value1:NoExecute"]), added_at=T0)
    assert found.taints == (KEY1, KEY1_EXECUTE)


@given(TAINT_LISTS, TAINT_LISTS, TAINT_LISTS)
def test_a_target_keeps_one_taint_of_each_identity(current: list[Taint], add: list[Taint], remove: list[Taint]) -> None:
    for overwrite in (False, True):
        found = set_taints(current, add, remove, overwrite=overwrite, added_at=T1)
        identities = [taint.identity for taint in found.taints]
        assert len(set(identities)) == len(identities) == len(found.fresh)
        assert set(found.removed) <= set(current)
        again = set_taints(found.taints, add, [], added_at=T1)
        assert [t for t in found.taints if t.identity in {a.identity for a in add}] == [
            t for t in again.taints[: len(found.taints)] if t.identity in {a.identity for a in add}
        ]


@given(TAINT_LISTS)
def test_what_is_written_reads_back(taints: list[Taint]) -> None:
    known = [t for t in taints if t.effect != "Other"]
    bare = tuple(t.model_copy(update={"time_added": None}) for t in known if not t.value.startswith("-"))
    assert parse_taints(map(taint_text, bare)).add == bare
