"""CEL expressions over managed clusters. The variable `managedCluster` is the cluster's object.

An expression that cannot be evaluated for a cluster (because a field is missing or types do not match) is false for
that cluster, as upstream. Errors that do not depend on a cluster raise `ExpressionError`: wrong syntax, and names that
are not declared. Upstream's compiler also checks types; here an expression with a type error is false for every
cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import cel

from moorage.core.apimachinery.cel_functions import FUNCTIONS

Scores = Callable[[str, str], Mapping[str, int] | None]
"""Looks up the scores of a cluster by the cluster's name and the name of the AddOnPlacementScore. None if there are
none."""

CLUSTER: Final = "managedCluster"

_SCORES: Final = "scores"
_TYPES: Final = ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint")
_OF_CEL: Final = (
    *("all", "contains", "dyn", "duration", "endsWith", "exists", "exists_one", "filter", "has", "hasValue", "map"),
    *("matches", "none", "of", "ofNonZeroValue", "or", "orValue", "size", "startsWith", "timestamp", "value"),
    *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds"),
    *("getMinutes", "getMonth", "getSeconds"),
)
_FUNCTIONS: Final = frozenset({*_OF_CEL, *_TYPES, _SCORES, *(name.rpartition(".")[2] for name in FUNCTIONS)})
_NAMESPACES: Final = frozenset({"optional", *(name.partition(".")[0] for name in FUNCTIONS if "." in name)})
_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
"""Matches a name that a macro binds."""

_TEXT: Final = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\"""")


class ExpressionError(ValueError):
    """An expression is invalid. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    program: cel.Program = field(compare=False, repr=False)

    def holds(self, cluster: Mapping[str, Any], within: cel.Context | None = None) -> bool:
        """Whether the expression is true for a cluster's object. False if it cannot be evaluated.

        Args:
            cluster: the object.
            within: the result of `context`; one context serves many clusters. Without it, no scores are available.
        """
        asked = within if within is not None else context()
        asked.add_variable(CLUSTER, cluster)
        try:
            return self.program.execute(asked) is True
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return False


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression:
    """Compile an expression.

    Raises:
        ExpressionError: the expression is invalid.
    """
    try:
        program = cel.compile(text)
    except ValueError as error:
        # The library puts the expression in front of the message. The rest is upstream's text except for the margin.
        said = str(error).removeprefix(f"Failed to parse expression '{text}': ").replace("\n| ", "\n | ")
        raise ExpressionError(f"compilation failed: {said}") from None
    if undeclared := _undeclared(text, program):
        raise ExpressionError("compilation failed: " + "\n".join(undeclared))
    return Expression(text, program)


def _undeclared(text: str, program: cel.Program) -> list[str]:
    """Errors about undeclared names of an expression, with the text of upstream's compiler."""
    bare = _TEXT.sub(lambda found: " " * len(found[0]), text)
    bound = set(_BOUND.findall(bare))
    names = [name for name in program.variables() if name not in {CLUSTER, *_TYPES, *_NAMESPACES, *bound}]
    names += [name for name in program.functions() if name.isidentifier() and name[0] != "_" and name not in _FUNCTIONS]
    places = sorted((found.start(), name) for name in names if (found := re.search(rf"\b{re.escape(name)}\b", bare)))
    said = []
    for place, name in places:
        line = text.count("\n", 0, place)
        column = place - (text.rfind("\n", 0, place) + 1)
        shown = text.split("\n")[line]
        # For a function, upstream points at its bracket.
        at = column + len(name) if bare[place + len(name) :].startswith("(") else column
        head = f"ERROR: <input>:{line + 1}:{at + 1}: undeclared reference to '{name}' (in container '')"
        said.append(f"{head}\n | {shown}\n | {'.' * at}^")
    return said


def context(scores: Scores | None = None) -> cel.Context:
    """Make the context for evaluating expressions: the functions, and the scores that `scores` returns, if any."""
    made = cel.Context()
    for name, function in FUNCTIONS.items():
        made.add_function(name, function)

    def of_cluster(cluster: Mapping[str, Any], resource: str) -> list[dict[str, Any]] | None:
        found = None if scores is None else scores(cluster.get("metadata", {}).get("name", ""), resource)
        # Operations on null fail, so an expression that needs missing scores is false.
        return None if found is None else [{"name": one, "value": value} for one, value in found.items()]

    made.add_function(_SCORES, of_cluster)
    return made
