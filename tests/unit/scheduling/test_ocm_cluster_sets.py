from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet, ManagedSets, UsableSets, named_set, usable_sets
from moorage.decide.scheduling.ocm.selector import LabelTerms, SelectorError
from moorage_schemas.resources.managed import DEFAULT_SET, GLOBAL_SET, SET_LABEL, ManagedClusterSetSpec
from moorage_schemas.resources.meta import LabelSelector


def spec(kind: str = "", selector: dict[str, Any] | None = None) -> ManagedClusterSetSpec:
    return ManagedClusterSetSpec.model_validate({"clusterSelector": {"selectorType": kind, "labelSelector": selector}})


EU = {"matchLabels": {"region": "eu"}}


def sets(**specs: ManagedClusterSetSpec) -> ManagedSets:
    made = ManagedSets()
    for name, one in specs.items():
        assert made.put(name, one)
    return made


@table(
    ("labels", "expected"),
    [
        ({}, {"default", "global"}),
        ({SET_LABEL: ""}, {"default", "global"}),
        ({SET_LABEL: "default"}, {"default", "global"}),
        ({SET_LABEL: "prod"}, {"prod", "global"}),
        ({SET_LABEL: "old"}, {"old", "global"}),
        ({SET_LABEL: "nosuch"}, {"global"}),
        ({SET_LABEL: "global"}, {"global"}),
        ({SET_LABEL: "europe"}, {"global"}),
        ({SET_LABEL: "prod", "region": "eu"}, {"prod", "europe", "global"}),
        ({"region": "eu"}, {"default", "europe", "global"}),
        ({"region": "us"}, {"default", "global"}),
    ],
)
def test_the_sets_of_a_cluster(labels: dict[str, str], expected: set[str]) -> None:
    made = sets(
        prod=spec("ExclusiveClusterSetLabel"),
        old=spec("LegacyClusterSetLabel"),
        europe=spec("LabelSelector", EU),
        nobody=spec("LabelSelector"),
    )
    assert made.of(labels) == expected
    assert made.names == ["default", "europe", "global", "nobody", "old", "prod"]
    assert {name for name in made.names if (one := made.get(name)) and one.has(labels)} == expected


@pytest.mark.parametrize(
    ("labels", "missing"),
    [({}, ""), ({SET_LABEL: "prod"}, ""), ({SET_LABEL: "nosuch"}, "nosuch"), ({SET_LABEL: "europe"}, "europe")],
)
def test_a_set_that_a_cluster_names_and_that_is_not_there(labels: dict[str, str], missing: str) -> None:
    made = sets(prod=spec(), europe=spec("LabelSelector", EU))
    assert made.missing(labels) == missing


def test_membership_follows_the_sets() -> None:
    made = ManagedSets()
    labels = {SET_LABEL: "prod", "region": "eu"}
    assert made.of(labels) == {"global"}
    assert made.put("prod", spec())
    assert not made.put("prod", spec("ExclusiveClusterSetLabel"))
    assert made.of(labels) == {"prod", "global"}
    assert made.put("prod", spec("LabelSelector", {"matchLabels": {"region": "us"}}))
    assert made.of(labels) == {"global"}
    assert made.put("prod", spec("LabelSelector", EU))
    assert made.of(labels) == {"prod", "global"}
    assert made.remove("prod")
    assert not made.remove("prod")
    assert made.of(labels) == {"global"}


@pytest.mark.parametrize("name", [DEFAULT_SET, GLOBAL_SET])
def test_the_built_in_sets_stay(name: str) -> None:
    made = ManagedSets()
    assert name in made
    assert not made.put(name, spec("LabelSelector", EU))
    assert not made.remove(name)
    assert made.of({"region": "us"}) == {"default", "global"}


def test_as_upstream_nothing_is_built_in() -> None:
    made = ManagedSets(as_upstream=True)
    assert made.of({}) == frozenset()
    assert made.put("default", spec("LabelSelector", EU))
    assert made.of({"region": "eu"}) == {"default"}
    assert made.of({SET_LABEL: "default"}) == frozenset()
    assert made.remove("default")
    assert named_set({}, as_upstream=True) == ""


@pytest.mark.parametrize(
    ("kind", "selector", "problem"),
    [
        ("Bogus", None, "selectorType is not right: Bogus"),
        (
            "LabelSelector",
            {"matchExpressions": [{"key": "a", "operator": "Gt"}]},
            '"Gt" is not a valid label selector operator',
        ),
    ],
)
def test_a_wrong_set_has_nobody(kind: str, selector: dict[str, Any] | None, problem: str) -> None:
    made = sets(wrong=spec(kind, selector))
    assert made.of({SET_LABEL: "wrong", "a": "7"}) == {"global"}
    assert "wrong" in made
    assert made.get("wrong") == ManagedSet("wrong", exclusive=False, problem=problem)
    older = ManagedSet.of("old", spec("LegacyClusterSetLabel"), as_upstream=True)
    assert older.problem == "selectorType is not right: LegacyClusterSetLabel"


@pytest.mark.parametrize(
    ("bindings", "asked", "bound", "eligible"),
    [
        ([], [], (), ()),
        (["nosuch"], [], (), ()),
        (["prod", "global", "nosuch"], [], ("global", "prod"), ("global", "prod")),
        (["prod", "global"], ["prod", "nosuch", "default"], ("global", "prod"), ("prod",)),
        (["prod"], ["default"], ("prod",), ()),
        (["default"], [], ("default",), ("default",)),
    ],
)
def test_the_sets_that_a_placement_may_use(
    bindings: list[str], asked: list[str], bound: tuple[str, ...], eligible: tuple[str, ...]
) -> None:
    assert usable_sets(bindings, sets(prod=spec()), asked) == UsableSets(bound, eligible, tuple(asked))


KEYS = st.sampled_from(["region", "tier", SET_LABEL])
TEXTS = st.sampled_from(["", "eu", "us", "prod", "default"])
LABELS = st.dictionaries(KEYS, TEXTS)
REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(TEXTS, min_size=1),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
SELECTORS = st.builds(
    lambda labels, requirements: LabelSelector.model_validate(
        {"matchLabels": labels, "matchExpressions": requirements}
    ),
    LABELS,
    st.lists(REQUIREMENTS, max_size=3),
)


@given(SELECTORS, LABELS)
def test_terms_select_what_the_selector_selects(selector: LabelSelector, labels: dict[str, str]) -> None:
    assert LabelTerms.of(selector).hold(labels) == matches_labels(selector, labels)


@given(
    st.dictionaries(
        st.sampled_from(["prod", "test", "default", "eu", "us"]),
        st.one_of(st.just(spec()), st.builds(lambda s: spec("LabelSelector", s.model_dump(by_alias=True)), SELECTORS)),
    ),
    st.lists(st.sampled_from(["prod", "test", "eu"]), max_size=4),
    LABELS,
)
def test_the_answer_does_not_depend_on_the_way(
    specs: dict[str, ManagedClusterSetSpec], dropped: list[str], labels: dict[str, str]
) -> None:
    walked = ManagedSets()
    for name in dropped:
        walked.put(name, spec("LabelSelector", EU))
    for name in dropped:
        walked.remove(name)
    for name, one in specs.items():
        walked.put(name, one)
    direct = sets(**{name: one for name, one in specs.items() if name not in {"default", "global"}})
    expected = {name for name in direct.names if (made := direct.get(name)) and made.has(labels)}
    assert walked.of(labels) == direct.of(labels) == expected


LONG = "x" * 64
LONG_KEY = "k" * 64
TWO_WRONG = (
    f'[key: Invalid value: "{LONG_KEY}": name part must be no more than 63 characters, '
    f'values[0][{LONG_KEY}]: Invalid value: "{LONG}": must be no more than 63 characters]'
)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": ["x", "y"]}]},
            'values: Invalid value: ["x","y"]: values set must be empty for exists and does not exist',
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Bogus"}]}, '"Bogus" is not a valid label selector operator'),
        ({"matchLabels": {"a": LONG}}, f'values[0][a]: Invalid value: "{LONG}": must be no more than 63 characters'),
        (
            {"matchExpressions": [{"key": LONG_KEY, "operator": "NotIn", "values": [LONG]}]},
            TWO_WRONG,
        ),
    ],
)
def test_a_wrong_selector_is_said_as_upstream_says_it(selector: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelTerms.of(LabelSelector.model_validate(selector))
    assert str(caught.value) == message
