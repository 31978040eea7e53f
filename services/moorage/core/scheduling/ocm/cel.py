"""CEL expressions of placements: the variable `managedCluster` is the cluster's object.

An expression that cannot be answered for a cluster (a field is not there, types do not go together) does not hold of
it, as upstream. What is wrong before any cluster is looked at is an `ExpressionError`: the syntax, and names that
nobody has declared. Upstream's compiler checks types too; here such an expression holds of no cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import cel
import numpy as np

from moorage.core.scheduling.ocm.cel_functions import FUNCTIONS
from moorage.core.scheduling.ocm.columns import Aspect, Column, Rows, Values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moorage.core.scheduling.ocm.facts import ClusterFacts
    from moorage.core.scheduling.ocm.fleet import ManagedFleet

UNKNOWN, FALSE, TRUE = 0, 1, 2
"""Answers of a `CelColumn`; unknown is not asked yet."""

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

    def holds(self, facts: ClusterFacts, fleet: ManagedFleet | None = None) -> bool:
        """Whether it is true of a cluster; False too when it cannot be answered. `scores` asks the fleet."""
        return self.holds_in(_context(fleet), facts)

    def holds_in(self, context: cel.Context, facts: ClusterFacts) -> bool:
        """The same in a context that has the functions already."""
        context.add_variable(CLUSTER, facts.document)
        try:
            return self.program.execute(context) is True
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


def _context(fleet: ManagedFleet | None) -> cel.Context:
    """The functions; those of a fleet know its scores."""
    context = cel.Context()
    for name, function in FUNCTIONS.items():
        context.add_function(name, function)

    def scores(cluster: Mapping[str, Any], resource: str) -> list[dict[str, Any]] | None:
        name = cluster.get("metadata", {}).get("name", "")
        found = None if fleet is None else fleet.score(name, resource)
        # Nothing can be asked of null, so that an expression which needs missing scores does not hold.
        return None if found is None else [{"name": one, "value": value} for one, value in found.scores.items()]

    context.add_function(_SCORES, scores)
    return context


@dataclass(frozen=True, slots=True)
class CelColumn(Column):
    """Whether an expression holds; asked of a cluster when somebody needs to know."""

    expression: Expression

    aspects: ClassVar[Aspect] = Aspect.DOCUMENT | Aspect.SCORES | Aspect.LABELS | Aspect.TAINTS | Aspect.LIFE
    lazy: ClassVar[bool] = True

    def empty(self, capacity: int) -> Values:
        """Not asked yet."""
        return np.zeros(capacity, dtype=np.uint8)

    def answer(self, fleet: ManagedFleet, row: int) -> int:
        """Ask about one cluster."""
        return TRUE if self.expression.holds(fleet.at(row), fleet) else FALSE

    def fill(self, fleet: ManagedFleet, values: Values, rows: Rows) -> None:
        """Ask about the rows."""
        context = _context(fleet)
        for row in rows.tolist():
            values[row] = TRUE if self.expression.holds_in(context, fleet.at(row)) else FALSE
