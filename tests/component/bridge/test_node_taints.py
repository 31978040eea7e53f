"""The patch with which a node gets its taints, and whose taint is whose."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.component.bridge.topics import a_taint
from tests.support.records import at
from tests.support.tables import table

from moorage.apiserver.machinery.patching import merge_patch
from moorage.bridges.engine.seen_target import (
    TAINTS_ANNOTATION,
    foreign_taints,
    identity_of,
    managed_taints,
    own_taints,
)
from moorage.bridges.engine.taint_lists import taints_patch
from moorage.bridges.kubernetes.cluster import SeenNode
from moorage.bridges.kubernetes.reduced import reduced
from moorage_schemas.taint import TaintRecord

Json = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
KEYS = ("dedicated", "broken", NOT_READY, "node.kubernetes.io/unschedulable", "node.kubernetes.io/memory-pressure")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
IDENTITIES = st.tuples(st.sampled_from(KEYS), st.sampled_from(EFFECTS))
TIMES = st.integers(0, 3).map(at)


@st.composite
def taints_there(draw: st.DrawFn) -> list[Json]:
    """A node's taints in the cluster, of anybody."""
    found = []
    for key, effect in draw(st.lists(IDENTITIES, unique=True, max_size=6)):
        one: Json = {"key": key, "effect": effect}
        if value := draw(st.sampled_from(["", "a", "b"])):
            one["value"] = value
        if draw(st.booleans()):
            one["timeAdded"] = draw(TIMES).strftime("%Y-%m-%dT%H:%M:%SZ")
        found.append(one)
    return found


@st.composite
def nodes(draw: st.DrawFn) -> Json:
    """A node with taints, of which some are noted as Moorage's, and perhaps some that are not there any more."""
    taints = draw(taints_there())
    identities = draw(st.lists(IDENTITIES, max_size=3))
    identities += [identity_of(one) for one in taints if draw(st.booleans())]
    metadata: Json = {"name": "n1", "uid": "u1", "resourceVersion": "7", "annotations": {"other": "x"}}
    if identities:
        text = ",".join(f'{{"key":"{key}","effect":"{effect}"}}' for key, effect in identities)
        metadata["annotations"][TAINTS_ANNOTATION] = f"[{text}]"
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}}


@st.composite
def wanted_taints(draw: st.DrawFn) -> list[TaintRecord]:
    return [
        a_taint(key, effect, draw(st.sampled_from(["", "a", "b"])), at=draw(TIMES))
        for key, effect in draw(st.lists(IDENTITIES, unique=True, max_size=5))
    ]


def after(node: Json, patch: Json | None) -> Json:
    """A node after a merge patch, as the API server has it."""
    found: Json = copy.deepcopy(merge_patch.applied(node, patch)) if patch is not None else node
    found["metadata"] = {name: value for name, value in found["metadata"].items() if value is not None}
    return found


@given(nodes(), wanted_taints())
def test_a_node_gets_its_taints_and_those_of_others_stay(node: Json, wanted: list[TaintRecord]) -> None:
    seen = SeenNode.of(node)
    patch = taints_patch(seen, wanted, managed=seen.managed_taints)
    there = after(node, patch)
    others = [one for one in node["spec"]["taints"] if identity_of(one) not in seen.managed_taints]
    assert there["spec"]["taints"][: len(others)] == others if patch else True
    assert [one for one in there["spec"]["taints"] if one in others] == others, "in their order, as they were"
    identities = [identity_of(one) for one in there["spec"]["taints"]]
    assert len(identities) == len(set(identities)), "the API server refuses two of one key and effect"
    theirs = {identity_of(one) for one in others}
    assert set(identities) == theirs | {one.identity for one in wanted}
    assert own_taints(there) == {one.identity for one in wanted} - theirs, "those of others are not noted"
    assert there["metadata"]["annotations"]["other"] == "x"
    again = SeenNode.of(there)
    assert taints_patch(again, wanted, managed=again.managed_taints) is None
    if patch is not None:
        assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("u1", "7")


@given(nodes(), wanted_taints())
def test_leaving_removes_exactly_what_is_noted(node: Json, wanted: list[TaintRecord]) -> None:
    seen = SeenNode.of(node)
    there = after(node, taints_patch(seen, wanted, managed=seen.managed_taints))
    seen = SeenNode.of(there)
    left = after(there, taints_patch(seen, (), managed=seen.own_taints))
    noted = own_taints(there)
    assert left["spec"]["taints"] == [one for one in there["spec"]["taints"] if identity_of(one) not in noted]
    assert TAINTS_ANNOTATION not in left["metadata"]["annotations"]
    seen = SeenNode.of(left)
    assert taints_patch(seen, (), managed=seen.own_taints) is None


@given(nodes())
def test_what_is_mirrored_as_a_wish_is_neither_moorage_s_nor_the_state_s(node: Json) -> None:
    wishes = reduced(node)["spec"].get("taints", [])
    assert {identity_of(one) for one in wishes}.isdisjoint(managed_taints(node))
    assert wishes == foreign_taints(node)


def tainted(*taints: Json, note: str | None = None) -> Json:
    annotations = {} if note is None else {TAINTS_ANNOTATION: note}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "annotations": annotations},
        "spec": {"taints": list(taints)},
    }


@table(
    "note",
    [
        "",
        "no JSON",
        "{}",
        "null",
        "7",
        '"text"',
        '["broken"]',
        "[7, null, []]",
        '[{"key": ["broken"], "effect": {}}]',
        '[{"key": "broken"}]',
        '[{"effect": "NoExecute"}]',
    ],
)
def test_a_note_that_cannot_be_read_claims_nothing(note: str) -> None:
    node = tainted({"key": "broken", "effect": "NoExecute"}, note=note)
    assert ("broken", "NoExecute") not in managed_taints(node)
    assert [identity_of(one) for one in foreign_taints(node)] == [("broken", "NoExecute")]
    seen = SeenNode.of(node)
    there = after(node, taints_patch(seen, [a_taint("mine")], managed=seen.managed_taints))
    assert [identity_of(one) for one in there["spec"]["taints"]] == [("broken", "NoExecute"), ("mine", "NoExecute")]


@table(
    ("taint", "is_managed", "is_wish"),
    [
        ({"key": NOT_READY, "effect": "NoSchedule"}, True, False),
        ({"key": NOT_READY, "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}, False, False),
        ({"key": NOT_READY, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}, False, False),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, True, False),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"}, False, True),
        ({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "nodeshutdown"}, False, True),
        ({"key": "dedicated", "effect": "NoSchedule", "value": "db"}, False, True),
        ({"key": "dedicated", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}, False, True),
    ],
)
def test_whose_taint_it_is(taint: Json, is_managed: bool, is_wish: bool) -> None:  # noqa: FBT001 - a column of the table
    """Admission gives a new node not-ready without a time; Kubernetes' own controller gives its taints one."""
    node = tainted(taint)
    assert (identity_of(taint) in managed_taints(node)) is is_managed
    assert (taint in foreign_taints(node)) is is_wish
    noted = tainted(taint, note=f'[{{"key":"{taint["key"]}","effect":"{taint["effect"]}"}}]')
    assert identity_of(taint) in managed_taints(noted)
    assert foreign_taints(noted) == []
