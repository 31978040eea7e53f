"""Tables of cases that are one test each."""

from __future__ import annotations

import inspect

import pytest
from tests.support.tables import table


def test_each_case_that_fails_is_named() -> None:
    @table(("given", "expected"), [(1, 1), pytest.param(2, 3, id="two"), (4, 5)], ids=str)
    def check(given: int, expected: int) -> None:
        assert given == expected

    with pytest.raises(AssertionError, match=r"(?s)2 of 3 cases failed:.*\[two\].*\[4-5\]"):
        check()  # type: ignore[call-arg]  # the table has the arguments


async def test_a_table_may_be_of_a_coroutine_and_use_fixtures() -> None:
    seen: list[tuple[int, str]] = []

    @table("number", [1, 2])
    async def check(number: int, place: str) -> None:
        seen.append((number, place))

    await check(place="here")  # type: ignore[call-arg]  # the table has the other argument
    assert seen == [(1, "here"), (2, "here")]
    assert list(inspect.signature(check).parameters) == ["place"]


def test_a_table_without_cases_fails() -> None:
    @table("number", [])
    def check(number: int) -> None:
        raise AssertionError(number)

    with pytest.raises(AssertionError, match="no cases"):
        check()  # type: ignore[call-arg]  # the table has the argument


def test_what_ends_a_run_is_not_a_case_that_failed() -> None:
    @table("number", [1])
    def check(number: int) -> None:
        raise KeyboardInterrupt(number)

    with pytest.raises(KeyboardInterrupt):
        check()  # type: ignore[call-arg]  # the table has the argument
