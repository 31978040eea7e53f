"""A small schema with every way of merging, and documents of it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moorage.apiserver.machinery.schema import Field, Form, ListType, Schema

Document = dict[str, Any]

STRING = Schema(Form.STRING)
INTEGER = Schema(Form.INTEGER)
LABELS = Schema(Form.MAP, items=STRING)


def struct(called: str, /, **fields: Schema) -> Schema:
    return Schema(Form.STRUCT, name=f"toys.{called}", fields={key: Field(key, one) for key, one in fields.items()})


def keyed(element: Schema, *keys: str, merge_key: str = "", retains: bool = False) -> Schema:
    strategies = {"merge", "retainKeys"} if retains else {"merge"}
    return Schema(
        Form.LIST,
        items=element,
        list_type=ListType.MAP,
        list_keys=keys,
        patch_strategies=frozenset(strategies),
        merge_key=merge_key or keys[0],
    )


PORT = struct("Port", number=INTEGER, protocol=Schema(Form.STRING, default="TCP"), host=STRING)
CONTAINER = struct(
    "Container",
    name=STRING,
    image=STRING,
    args=Schema(Form.LIST, items=STRING),
    ports=keyed(PORT, "number", "protocol"),
)
VOLUME = struct("Volume", name=STRING, host=struct("Host", path=STRING), empty=struct("Empty", medium=STRING))
STRATEGY = struct("Strategy", type=STRING, rolling=struct("Rolling", most=INTEGER))
STRATEGY.patch_strategies = frozenset({"retainKeys"})
SELECTOR = struct("Selector", matchLabels=LABELS)
SELECTOR.is_atomic = True
SPEC = struct(
    "Spec",
    replicas=INTEGER,
    containers=keyed(CONTAINER, "name"),
    volumes=keyed(VOLUME, "name", retains=True),
    addresses=Schema(
        Form.LIST, items=STRING, list_type=ListType.SET, patch_strategies=frozenset({"merge"}), merge_key=""
    ),
    tolerations=Schema(Form.LIST, items=struct("Toleration", key=STRING, effect=STRING)),
    selector=SELECTOR,
    strategy=STRATEGY,
)
META = struct("Meta", name=STRING, uid=STRING, resourceVersion=STRING, labels=LABELS, annotations=LABELS)
TOY = struct(
    "Toy",
    apiVersion=STRING,
    kind=STRING,
    metadata=META,
    spec=SPEC,
    status=struct("Status", ready=INTEGER, phase=STRING),
)

_WORDS = st.sampled_from(["a", "b", "c", "d"])


def _subset(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return st.fixed_dictionaries({}, optional=fields)


def _named(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Document]]:
    element = st.fixed_dictionaries({"name": _WORDS}, optional=fields)
    return st.lists(element, max_size=4, unique_by=lambda one: one["name"])


_LABELS = st.dictionaries(_WORDS, _WORDS, max_size=3)
_PORTS = st.lists(
    st.fixed_dictionaries({"number": st.integers(1, 3)}, optional={"host": _WORDS}),
    max_size=3,
    unique_by=lambda one: one["number"],
)
SPECS = _subset(
    replicas=st.integers(0, 3),
    containers=_named(image=_WORDS, args=st.lists(_WORDS, max_size=2), ports=_PORTS),
    volumes=_named(host=_subset(path=_WORDS), empty=_subset(medium=_WORDS)),
    addresses=st.lists(_WORDS, max_size=3, unique=True).map(sorted),
    tolerations=st.lists(_subset(key=_WORDS, effect=_WORDS), max_size=2),
    selector=_subset(matchLabels=_LABELS),
    strategy=_subset(type=_WORDS, rolling=_subset(most=st.integers(0, 2))),
)
TOYS = st.builds(
    lambda spec, labels: {
        "apiVersion": "toys/v1",
        "kind": "Toy",
        "metadata": {"name": "toy", "labels": labels},
        "spec": spec,
    },
    SPECS,
    _LABELS,
)


def tidy(value: Any) -> Any:
    """A document without empty objects and lists, which merging may add or drop."""
    if isinstance(value, dict):
        kept = {key: tidy(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ({}, [], None)}
    return [tidy(inner) for inner in value] if isinstance(value, list) else value
