"""Quantities, compared with a table of upstream's forms and with decimal arithmetic."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.kubernetes.quantities import QuantityError, is_extended, parse_quantity, whole, whole_amounts


@table(
    ("text", "number"),
    [
        ("0", 0),
        ("1", 1),
        ("+1", 1),
        ("-2", -2),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("100m", Fraction(1, 10)),
        ("1500u", Fraction(3, 2000)),
        ("3n", Fraction(3, 10**9)),
        ("2k", 2000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("12e+2", 1200),
        (7, 7),
        (0.1, Fraction(1, 10)),
        (1e21, 10**21),
    ],
)
def test_each_form_is_read_exactly(text: str | float, number: int | Fraction) -> None:
    assert parse_quantity(text) == number


@table(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1K",
        "1ki",
        "1e",
        "1e1.5",
        "m",
        "--1",
        "1mi",
        "0x10",
        "1_000",
        "٣",
        "1" * 65,
        True,
        None,
        [],
        "nan",
    ],
)
def test_what_is_no_quantity_is_refused_by_name(text: object) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text, "spec.containers[0].resources.requests[cpu]")  # type: ignore[arg-type]  # on purpose
    assert caught.value.field == "spec.containers[0].resources.requests[cpu]"
    assert caught.value.value == text
    assert "must be a decimal number" in str(caught.value)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_without_an_end_are_refused(value: float) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(value)


def test_an_exponent_without_bounds_is_refused() -> None:
    with pytest.raises(QuantityError, match="exponent must be between"):
        parse_quantity("1e9999")


@table(
    ("resource", "text", "amount"),
    [
        ("cpu", "1", 1000),
        ("cpu", "250m", 250),
        ("cpu", "0.1", 100),
        ("cpu", "1u", 1),
        ("cpu", "1001u", 2),
        ("memory", "1Gi", 2**30),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "2", 2),
        ("pods", "110", 110),
    ],
)
def test_amounts_are_whole_and_rounded_up(resource: str, text: str, amount: int) -> None:
    assert whole(resource, text) == amount


def test_negative_amounts_are_refused() -> None:
    with pytest.raises(QuantityError, match="greater than or equal to 0"):
        whole("cpu", "-1", "limits[cpu]")


def test_amounts_name_the_resource_that_is_wrong() -> None:
    assert whole_amounts({"cpu": "1", "memory": 5}, "r") == {"cpu": 1000, "memory": 5}
    assert whole_amounts(None, "r") == {}
    with pytest.raises(QuantityError, match=r"r\[memory\]"):
        whole_amounts({"memory": ["1"]}, "r")


@given(
    st.decimals(min_value=0, max_value=10**9, places=6, allow_nan=False),
    st.sampled_from(["", "m", "k", "M", "Ki", "Gi"]),
)
def test_agrees_with_decimal_arithmetic(number: Decimal, suffix: str) -> None:
    scale = {"": "1", "m": "1/1000", "k": "1000", "M": "1000000", "Ki": "1024", "Gi": "1073741824"}[suffix]
    assert parse_quantity(f"{number}{suffix}") == Fraction(number) * Fraction(scale)


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("example.com/dongle", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/thing", False),
        ("sub.kubernetes.io/thing", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_extended_resources_are_domain_qualified_outside_kubernetes(name: str, *, extended: bool) -> None:
    assert is_extended(name) is extended
