"""CEL expressions over objects: managed clusters, or devices. An environment names what they may use.

An expression that cannot be evaluated for a cluster (because a field is missing, or it costs too much) is false for
that cluster, as upstream. Errors that do not depend on an object raise `ExpressionError`: wrong syntax, undeclared
names, types that do not fit. Whether upstream also refuses the expression is in the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from moorage.decide.kubernetes.cel.checker import UnsupportedError, check
from moorage.decide.kubernetes.cel.environments import MANAGED_CLUSTER, PER_CALL_LIMIT, Environment
from moorage.decide.kubernetes.cel.functions.documents import Scores
from moorage.decide.kubernetes.cel.programs import Program, ProgramError
from moorage.decide.kubernetes.cel.syntax import SyntaxTreeError, TooDeepError, parse
from moorage.decide.kubernetes.cel.types import TooDearError, shown
from moorage.decide.kubernetes.cel.values import CelError, FatalError, LimitError, Value

BUDGET: Final = 10_000_000
"""The maximum cost of all expressions of a selector for one cluster, as upstream (`RuntimeCELCostBudget`)."""

LEAST_BUDGET: Final = 20_000_000
"""How much an expression may cost for all clusters of a decision together, however few they are: a few seconds."""

BUDGET_PER_CLUSTER: Final = 5_000
"""The limit of its average cost for each cluster, where many clusters make this more."""

_ERRORS: Final = 100
"""How many errors of an expression are reported."""

_WIDEST: Final = 16_384
"""How many characters a line may have that an error shows."""


class ExpressionError(ValueError):
    """An expression is invalid. The text is upstream's, except for errors of syntax.

    Attributes:
        as_upstream: whether upstream also refuses the expression. Otherwise only Moorage cannot evaluate it.
    """

    def __init__(self, text: str, *, as_upstream: bool = True) -> None:
        super().__init__(text)
        self.as_upstream = as_upstream


class Evaluation:
    """The scores that expressions may look up. One serves many clusters.

    Args:
        scores: looks up scores. Without it, none are available.
    """

    def __init__(self, scores: Scores | None = None) -> None:
        self.scores = scores


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an evaluation.

    Attributes:
        value: whether the expression is true. False if it failed.
        cost: the cost of the evaluation, as upstream counts it.
        work: what the evaluation took besides, in units of that cost.
        error: why it failed. Empty if it did not.
        unsupported: whether it failed because of a limit of Moorage, so that it may be true upstream.
    """

    value: bool
    cost: int
    work: int
    error: str = ""
    unsupported: bool = False


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    limit: int
    """The maximum cost of an evaluation."""

    program: Program = field(compare=False, repr=False)

    def holds(self, value: Mapping[str, Any], within: Evaluation | None = None) -> bool:
        """Return whether the expression is true for an object. False if it fails, or costs too much.

        Args:
            value: the object.
            within: the scores. Without it, none are available.
        """
        return self.evaluate(value, within if within is not None else Evaluation()).value

    def evaluate(self, value: Mapping[str, Any], within: Evaluation) -> Result:
        """Return the result for an object."""
        found, cost, work = self.program.run(value, within.scores)
        if found is True or found is False:
            return Result(found, cost, work)
        return Result(
            value=False, cost=cost, work=work, error=_failure(found), unsupported=isinstance(found, LimitError)
        )


def _failure(found: Value) -> str:
    return str(found) if isinstance(found, (CelError, FatalError)) else f"the result is no bool: {found!r:.100}"


@lru_cache(maxsize=4096)
def compiled(text: str, limit: int = PER_CALL_LIMIT, environment: Environment = MANAGED_CLUSTER) -> Expression:
    """Compile an expression.

    Args:
        text: the expression.
        limit: the maximum cost of an evaluation.
        environment: what the expression may use.

    Raises:
        ExpressionError: the expression is invalid.
    """
    try:
        tree = parse(text, binds=environment.binds)
        checked = check(tree, environment)
        found = checked.types[tree]
        if environment.results and not checked.errors and found.name not in environment.results:
            raise ExpressionError(f"must evaluate to bool or the unknown type, not {shown(found)}")
        if not checked.errors:
            return Expression(text, limit, Program(tree, checked, limit, environment))
        errors = sorted(checked.errors, key=lambda error: error[0])
        lines = [_located(text, at, problem) for at, problem in errors[:_ERRORS]]
        if len(errors) > _ERRORS:
            lines.append(f"{len(errors) - _ERRORS} more errors were truncated")
        problem = "\n".join(lines)
    except TooDeepError as error:
        raise _invalid(f"ERROR: <input>:-1:0: {error}", as_upstream=error.as_upstream) from None
    except (UnsupportedError, TooDearError) as error:
        raise _invalid(f"ERROR: <input>:-1:0: {error}", as_upstream=False) from None
    except SyntaxTreeError as error:
        problem = _located(text, error.at, str(error))
    except ProgramError as error:
        problem = str(error)
    raise _invalid(problem)


def _invalid(problem: str, *, as_upstream: bool = True) -> ExpressionError:
    return ExpressionError(f"compilation failed: {problem}", as_upstream=as_upstream)


def _located(text: str, place: int, problem: str) -> str:
    """Return an error with its line and a mark below."""
    line = text.count("\n", 0, place)
    column = place - (text.rfind("\n", 0, place) + 1)
    head = f"ERROR: <input>:{line + 1}:{column + 1}: {problem}"
    shown = text.split("\n")[line]
    return head if len(shown) > _WIDEST else f"{head}\n | {shown}\n | {'.' * column}^"


def limit_of(count: int) -> int:
    """Return the maximum cost of each of so many expressions of a selector."""
    return min(PER_CALL_LIMIT, BUDGET // max(count, 1))


def budget_of(clusters: int) -> int:
    """Return how much an expression may cost for so many clusters together, in one decision."""
    return max(LEAST_BUDGET, BUDGET_PER_CLUSTER * clusters)
