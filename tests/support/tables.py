"""Tables of cases that are one test each, which names every case that fails.

A test for each case would cost a millisecond of collection in each process. `pytest.mark.parametrize` remains the right
choice where cases use fixtures that change, or take so long that they should run beside each other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

_MOST: Final = 20  # failures that are shown whole


def table(
    names: str | tuple[str, ...], cases: Iterable[Any], *, ids: Callable[[Any], str] | Iterable[Any] | None = None
) -> Callable[[Test], Test]:
    """Make one test of a function and a table of its arguments.

    Args:
        names: of the arguments, as for `pytest.mark.parametrize`.
        cases: the values of each case; a `pytest.param` may name it.
        ids: of the cases, or a function from a value to its part of the name.
    """
    arguments = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    rows = list(_rows(arguments, list(cases), ids))

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        rest = [one for name, one in signature.parameters.items() if name not in arguments]

        def failures() -> _Failures:
            assert rows, "the table has no cases"
            return _Failures(len(rows))

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(*given: Any, **fixtures: Any) -> None:
                found = failures()
                for name, values in rows:
                    with found.of(name):
                        await test(*given, **fixtures, **dict(zip(arguments, values, strict=True)))
                found.end()
        else:

            @functools.wraps(test)
            def run(*given: Any, **fixtures: Any) -> None:
                found = failures()
                for name, values in rows:
                    with found.of(name):
                        test(*given, **fixtures, **dict(zip(arguments, values, strict=True)))
                found.end()

        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest asks it for fixtures
        return run  # type: ignore[return-value]  # it is a test as the other one was

    return decorate


class _Failures:
    """The cases of a table that failed."""

    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._found: list[tuple[str, Exception]] = []
        self._name = ""

    def of(self, name: str) -> _Failures:
        """Return a context in which a case is checked."""
        self._name = name
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, pytest.fail.Exception):
            error = AssertionError(str(error))
        if not isinstance(error, Exception):
            return False
        self._found.append((self._name, error))
        return True

    def end(self) -> None:
        """Fail if a case has failed."""
        if not self._found:
            return
        lines = [f"{len(self._found)} of {self._cases} cases failed:"]
        lines += [f"[{name}] {type(error).__name__}: {error}" for name, error in self._found[:_MOST]]
        lines += [f"[{name}]" for name, _ in self._found[_MOST:]]
        raise AssertionError("\n\n".join(lines)) from self._found[0][1]


def _rows(arguments: list[str], cases: list[Any], ids: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    named = list(ids) if ids is not None and not callable(ids) else None
    for number, case in enumerate(cases):
        own = None
        if isinstance(case, type(pytest.param())):
            values, own = tuple(case.values), case.id
        else:
            values = (case,) if len(arguments) == 1 else tuple(case)
        if own is None and named is not None:
            own = named[number]
        if own is None:
            own = "-".join(str((ids(value) if callable(ids) else None) or repr(value)) for value in values)
        yield str(own), values
