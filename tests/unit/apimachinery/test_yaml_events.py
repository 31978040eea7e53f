"""What YAML may not do to its reader."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.machinery.yaml_events import (
    EXCESSIVE,
    MOST_BY_ALIASES,
    DepthError,
    TooLargeYamlError,
    check_events,
)


def check(text: str, **limits: int) -> None:
    check_events(yaml.parse(text), **limits)


def test_what_is_plain_or_has_a_few_aliases_is_read() -> None:
    check("a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a}\n---\ne: [*a, *a]\n")
    check("a: &a [" + "x," * 1000 + "]\nb: [" + "*a," * 99 + "]")
    check("\n---\n".join(["a: &a [" + "x," * 1000 + "]\nb: [" + "*a," * 99 + "]"] * 5))


def test_what_grows_is_refused() -> None:
    with pytest.raises(TooLargeYamlError, match=EXCESSIVE):
        check("a: &a [" + "x," * 1000 + "]\nb: [" + "*a," * 101 + "]")
    growing = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    with pytest.raises(TooLargeYamlError, match=EXCESSIVE):
        check(growing)


@pytest.mark.parametrize(("text", "depth"), [("[" * 5 + "]" * 5, 5), ("a: {b: [c: 1]}", 4), ("- - - 1", 3)])
def test_depth(text: str, depth: int) -> None:
    check(text, deepest=depth)
    with pytest.raises(DepthError):
        check(text, deepest=depth - 1)


def test_only_the_documents_that_are_read_count() -> None:
    text = "a: 1\n---\n" + "[" * 20 + "]" * 20
    check(text, deepest=10, documents=1)
    with pytest.raises(DepthError):
        check(text, deepest=10, documents=2)


def _size(value: object) -> int:
    match value:
        case dict():
            return 1 + sum(1 + _size(one) for one in value.values())
        case list():
            return 1 + sum(map(_size, value))
    return 1


@given(st.lists(st.lists(st.integers(0, 8), max_size=6), min_size=1, max_size=9))
def test_a_text_that_is_read_has_no_more_values_than_are_allowed(lists: list[list[int]]) -> None:
    lines = [
        f"a{n}: &a{n} [{', '.join(f'*a{one}' if one < n else 'x' for one in items)}]" for n, items in enumerate(lists)
    ]
    text = "\n".join(lines)
    written = sum(2 + len(items) for items in lists) + 1
    try:
        check(text)
    except TooLargeYamlError:
        assert _size(yaml.safe_load(text)) > MOST_BY_ALIASES
    else:
        assert _size(yaml.safe_load(text)) <= MOST_BY_ALIASES + written
