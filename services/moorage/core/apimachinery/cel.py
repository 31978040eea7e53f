"""CEL expressions over managed clusters: the variable `managedCluster` is the cluster's object.

An expression that cannot be answered for a cluster (a field is not there, types do not go together) does not hold of
it, as upstream. What is wrong before any cluster is looked at is an `ExpressionError`: the syntax, and names that
nobody has declared. Upstream's compiler checks types too; here such an expression holds of no cluster.
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
"""The scores of a cluster: its name and the name of the AddOnPlacementScore to them; None where there are none."""

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
"""A name that a macro binds."""

_TEXT: Final = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\"""")


class ExpressionError(ValueError):
    """An expression is wrong; the text is upstream's."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that compiles."""

    text: str
    program: cel.Program = field(compare=False, repr=False)

    def holds(self, cluster: Mapping[str, Any], within: cel.Context | None = None) -> bool:
        """Whether it is true of a cluster's object; False too when it cannot be answered.

        Args:
            cluster: the object.
            within: from `context`; without it no scores are known. One serves many clusters.
        """
        asked = within if within is not None else context()
        asked.add_variable(CLUSTER, cluster)
        try:
            return self.program.execute(asked) is True
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return False


@lru_cache(maxsize=4096)
def compiled(text: str) -> Expression:
    """The expression of a text.

    Raises:
        ExpressionError: it is wrong.
    """
    try:
        program = cel.compile(text)
    except ValueError as error:
        # The library says first which expression failed; the rest is what upstream's says, but for its margin.
        said = str(error).removeprefix(f"Failed to parse expression '{text}': ").replace("\n| ", "\n | ")
        raise ExpressionError(f"compilation failed: {said}") from None
    if undeclared := _undeclared(text, program):
        raise ExpressionError("compilation failed: " + "\n".join(undeclared))
    return Expression(text, program)


def _undeclared(text: str, program: cel.Program) -> list[str]:
    """What is wrong with the names of an expression, as upstream's compiler says it."""
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
        # A function is told by its bracket.
        at = column + len(name) if bare[place + len(name) :].startswith("(") else column
        head = f"ERROR: <input>:{line + 1}:{at + 1}: undeclared reference to '{name}' (in container '')"
        said.append(f"{head}\n | {shown}\n | {'.' * at}^")
    return said


def context(scores: Scores | None = None) -> cel.Context:
    """What expressions are asked in: the functions, with the scores that `scores` knows; none without."""
    made = cel.Context()
    for name, function in FUNCTIONS.items():
        made.add_function(name, function)

    def of_cluster(cluster: Mapping[str, Any], resource: str) -> list[dict[str, Any]] | None:
        found = None if scores is None else scores(cluster.get("metadata", {}).get("name", ""), resource)
        # Nothing can be asked of null, so that an expression which needs missing scores does not hold.
        return None if found is None else [{"name": one, "value": value} for one, value in found.items()]

    made.add_function(_SCORES, of_cluster)
    return made
