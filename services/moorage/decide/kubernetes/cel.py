"""CEL expressions over managed clusters. The variable `managedCluster` is the cluster's object.

An expression that cannot be evaluated for a cluster (because a field is missing or types do not match) is false for
that cluster, as upstream. Errors that do not depend on a cluster raise `ExpressionError`: wrong syntax, and undeclared
names. Upstream's compiler also checks types; here an expression with a type error is false for every cluster.

An evaluation has a limit of cost (`cel_cost`). An expression that may exceed it is false, as upstream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import cel

from moorage.decide.kubernetes.cel_cost import BUDGET, PER_CALL_LIMIT, cost
from moorage.decide.kubernetes.cel_functions import FUNCTIONS, MATCHES
from moorage.decide.kubernetes.cel_syntax import Node, SyntaxTreeError, TooDeepError, parse, renamed

Scores = Callable[[str, str], Mapping[str, int] | None]
"""Looks up the scores of a cluster by the cluster's name and the name of the AddOnPlacementScore. None if there are
none."""

CLUSTER: Final = "managedCluster"

LEAST_BUDGET: Final = 20_000_000
"""How much an expression may cost for all clusters of a decision together, however few they are: a few seconds."""

BUDGET_PER_CLUSTER: Final = 5_000
"""The limit of its average cost for each cluster, where many clusters make this more. Preparing the evaluation for a
cluster takes as long as about 2,000. So a large fleet takes a few times as long as with the simplest expression.
"""

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
_EXPLAINED: Final = 5_000
"""The number of characters up to which the library explains a syntax error. It does not survive all longer texts."""

_BOUND: Final = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*([A-Za-z_]\w*)\s*,")
"""Matches a name that a macro binds."""

_TEXT: Final = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\"""")


class ExpressionError(ValueError):
    """An expression is invalid. The text is upstream's."""


class Evaluation:
    """The functions of expressions, and the scores of clusters. One serves many clusters.

    Args:
        scores: looks up scores. Without it, none are available.
    """

    def __init__(self, scores: Scores | None = None) -> None:
        self.scores = scores
        self.context = _context(scores)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    limit: int
    """The maximum cost of an evaluation."""

    program: cel.Program = field(compare=False, repr=False)
    tree: Node = field(compare=False, repr=False)

    def holds(self, cluster: Mapping[str, Any], within: Evaluation | None = None) -> bool:
        """Return whether the expression is true for a cluster's object. False if it fails, or costs too much.

        Args:
            cluster: the object.
            within: the scores. Without it, none are available.
        """
        evaluation = within if within is not None else Evaluation()
        return self.cost(cluster, evaluation) <= self.limit and self.evaluate(cluster, evaluation)

    def evaluate(self, cluster: Mapping[str, Any], within: Evaluation) -> bool:
        """Return whether the expression is true for a cluster's object. Its cost must be within the limit."""
        within.context.add_variable(CLUSTER, cluster)
        try:
            return self.program.execute(within.context) is True
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return False

    def cost(self, cluster: Mapping[str, Any], within: Evaluation) -> int:
        """Return the highest possible cost of evaluating the expression for a cluster's object."""
        scores, metadata = within.scores, cluster.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        return cost(
            self.tree, {CLUSTER: cluster}, None if scores is None else lambda resource: scores(str(name), resource)
        )


@lru_cache(maxsize=4096)
def compiled(text: str, limit: int = PER_CALL_LIMIT) -> Expression:
    """Compile an expression.

    Args:
        text: the expression.
        limit: the maximum cost of an evaluation.

    Raises:
        ExpressionError: the expression is invalid.
    """
    try:
        tree = parse(text)
    except TooDeepError as error:
        raise ExpressionError(f"compilation failed: ERROR: <input>:-1:0: {error}") from None
    except SyntaxTreeError as error:
        if len(text) > _EXPLAINED:
            raise ExpressionError(f"compilation failed: ERROR: <input>:-1:0: Syntax error: {error}") from None
        tree = None
    program = _program(text)
    if tree is None:
        # The library accepts some texts that are no expression here, so their cost is unknown.
        raise ExpressionError("compilation failed: ERROR: <input>:-1:0: Syntax error: not supported")
    if undeclared := _undeclared(text, program):
        raise ExpressionError("compilation failed: " + "\n".join(undeclared))
    shown = renamed(text, {"matches": MATCHES})
    return Expression(text, limit, program if shown == text else _program(shown), tree)


def limit_of(count: int) -> int:
    """Return the maximum cost of each of so many expressions of a selector."""
    return min(PER_CALL_LIMIT, BUDGET // max(count, 1))


def budget_of(clusters: int) -> int:
    """Return how much an expression may cost for so many clusters together, in one decision."""
    return max(LEAST_BUDGET, BUDGET_PER_CLUSTER * clusters)


def _program(text: str) -> cel.Program:
    try:
        return cel.compile(text)
    except ValueError as error:
        # The library puts the expression in front of the message. The rest is upstream's text except for the margin.
        message = str(error).removeprefix(f"Failed to parse expression '{text}': ").replace("\n| ", "\n | ")
        raise ExpressionError(f"compilation failed: {message}") from None


def _undeclared(text: str, program: cel.Program) -> list[str]:
    """Return the errors about undeclared names of an expression, with the text of upstream's compiler."""
    bare = _TEXT.sub(lambda found: " " * len(found[0]), text)
    bound = set(_BOUND.findall(bare))
    names = [name for name in program.variables() if name not in {CLUSTER, *_TYPES, *_NAMESPACES, *bound}]
    names += [name for name in program.functions() if name.isidentifier() and name[0] != "_" and name not in _FUNCTIONS]
    places = sorted((found.start(), name) for name in names if (found := re.search(rf"\b{re.escape(name)}\b", bare)))
    errors = []
    for place, name in places:
        line = text.count("\n", 0, place)
        column = place - (text.rfind("\n", 0, place) + 1)
        shown = text.split("\n")[line]
        # For a function, upstream points at its bracket.
        at = column + len(name) if bare[place + len(name) :].startswith("(") else column
        head = f"ERROR: <input>:{line + 1}:{at + 1}: undeclared reference to '{name}' (in container '')"
        errors.append(f"{head}\n | {shown}\n | {'.' * at}^")
    return errors


def _context(scores: Scores | None) -> cel.Context:
    made = cel.Context()
    for name, function in FUNCTIONS.items():
        made.add_function(name, function)

    def of_cluster(cluster: Mapping[str, Any], resource: str) -> list[dict[str, Any]] | None:
        found = None if scores is None else scores(cluster.get("metadata", {}).get("name", ""), resource)
        # Operations on null fail, so an expression that needs missing scores is false.
        return None if found is None else [{"name": one, "value": value} for one, value in found.items()]

    made.add_function(_SCORES, of_cluster)
    return made
