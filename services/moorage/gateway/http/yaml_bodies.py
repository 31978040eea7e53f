"""Reads an object in YAML from a request. What it refers to more than once is bounded (a "billion laughs" attack)."""

from __future__ import annotations

from typing import Any, Final

import yaml

from moorage.gateway.errors import StatusError, bad_request

_MOST: Final = 200_000
"""The most values in a document, with everything that is referred to counted each time."""

_DEEPEST: Final = 100


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def parse_object(body: bytes, kind: str) -> dict[str, Any]:
    """Parse a YAML document that is an object.

    Args:
        body: the document.
        kind: of the object, for messages.

    Raises:
        StatusError: 400 if it is not YAML, not an object, or too large or too deep with everything it refers to.
    """
    prefix = f"the object provided is unrecognized (must be of type {kind}): "
    try:
        document = _parsed(body)
    except StatusError as error:
        raise bad_request(f"{prefix}{error.message}") from None
    if not isinstance(document, dict):
        raise bad_request(f"{prefix}it must be an object in YAML")
    return document


def _parsed(body: bytes) -> Any:
    try:
        loader = _Loader(body)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_size(node)
            return _as_json(loader.construct_document(node))
        finally:
            loader.dispose()
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError, OverflowError) as error:
        shown = " ".join(str(error).split())
        raise bad_request(f"yaml: {shown[:256]}") from None


def _check_size(root: yaml.Node) -> None:
    """Check that a document is not too large or too deep. Each node is looked at once, however often it is used."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    todo = [root]
    while todo:
        node = todo[-1]
        inner = _inner(node)
        if id(node) in sizes:
            todo.pop()
        elif id(node) in open_:
            todo.pop()
            open_.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(one)] for one in inner)
            if sizes[id(node)] > _MOST:
                raise bad_request("yaml: document contains excessive aliasing")
        else:
            open_.add(id(node))
            if len(open_) > _DEEPEST:
                raise bad_request("yaml: exceeded max depth")
            if any(id(one) in open_ for one in inner):
                raise bad_request("yaml: an anchor contains itself")
            todo += [one for one in inner if id(one) not in sizes]


def _inner(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _as_json(value: Any) -> Any:
    """A document as JSON has it: keys are text, and there are no other types."""
    if isinstance(value, dict):
        return {_key(key): _as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if isinstance(value, float) and (value != value or value in {float("inf"), float("-inf")}):  # noqa: PLR0124 - not a number
        raise bad_request("yaml: a number must be finite")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise bad_request(f"yaml: a value must be one of JSON, not a {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, (str, int, float)):
        return str(key)
    raise bad_request("yaml: a key must be text")
