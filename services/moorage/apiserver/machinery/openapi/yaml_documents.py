"""YAML as an API server reads it: the rules of upstream's parser where they differ from those of PyYAML."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from typing import Any, Final

import yaml

from moorage.apiserver.machinery.openapi.json_values import DEEPEST, INTEGERS, TOO_DEEP, ParseError
from moorage.apiserver.machinery.yaml_events import DepthError, check_events

_Base: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml, where it is there."""


def read(body: bytes) -> tuple[Any, tuple[str, ...]]:
    """Return the first document of a text, and the keys that occur twice in it, with their lines.

    Raises:
        ParseError: it is not YAML, is nested too deeply, or grows too much by its aliases.
    """
    loader: Any = None
    try:
        # The parser is a loop. What builds the document calls itself for each level, in C, where nothing ends that.
        check_events(yaml.parse(body, Loader=_Base), DEEPEST, documents=1)
        loader = _Loader(body)
        found = loader.get_data() if loader.check_data() else None
    except ParseError:
        raise
    except DepthError:
        raise ParseError(TOO_DEEP) from None
    except yaml.MarkedYAMLError as error:
        at = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ParseError(f"yaml: {at}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ParseError(f"yaml: {str(error).splitlines()[0]}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return found, tuple(loader.problems)


class _Loader(_Base):  # type: ignore[misc]  # PyYAML's stubs have no class for both parsers
    """Reads mappings as JSON has them, and plain scalars as upstream's parser does."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.problems: list[str] = []

    def resolve(self, kind: Any, value: str, implicit: Any) -> Any:
        """Return the tag of a node. Those of plain scalars are decided by `_plain`."""
        if kind is yaml.ScalarNode and implicit[0] and value != "<<":
            return _PLAIN_TAG
        return super().resolve(kind, value, implicit)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the base class's signature
        """Return the mapping with its keys as texts, and its repeated keys among the problems."""
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen and key != "<<":
                self.problems.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            seen.add(key)
        self.flatten_mapping(node)
        return {
            _key(self.construct_object(key_node, deep=True)): self.construct_object(value_node, deep=deep)
            for key_node, value_node in node.value
        }

    def construct_other(self, node: Any) -> Any:
        """Return a value with a tag that means nothing here."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)


_PLAIN_TAG: Final = "plain"
_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_WHOLE: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0x(?P<x>[0-9a-fA-F]+)|0b(?P<b>[01]+)|0o?(?P<o>[0-7]+)|(?P<d>0|[1-9][0-9]*))"
)
_BASES: Final = {"x": 16, "b": 2, "o": 8, "d": 10}
_DECIMAL: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MOST_DIGITS: Final = 64


def _plain(text: str) -> Any:
    """Return the value of a scalar without quotes: null, a boolean, a number or a text.

    The rules are those of YAML 1.1 as upstream's parser has them: `y` is true, and `12:30` is a text.
    """
    if text in _WORDS:
        return _WORDS[text]
    if not text[0].isascii() or text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    if len(digits) <= _MOST_DIGITS + 3 and (found := _WHOLE.fullmatch(digits)):
        base = next(name for name in _BASES if found[name] is not None)
        whole = int(found["sign"] + found[base], _BASES[base])
        return whole if whole in INTEGERS else float(whole)
    if _DECIMAL.fullmatch(digits) and math.isfinite(exact := float(digits)):
        return exact
    return text


def _key(value: Any) -> str:
    """Return a key of YAML as one of JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int() | float():
            return str(value)
    raise ParseError(f"yaml: invalid map key: {str(value)[:30]}")


_Loader.add_constructor(_PLAIN_TAG, lambda loader, node: _plain(loader.construct_scalar(node)))
for _tag in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:merge", None):
    _Loader.add_constructor(_tag, _Loader.construct_other)
