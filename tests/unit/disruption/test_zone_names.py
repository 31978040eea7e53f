"""A zone has one name for people and one for the API's paths. Each can be computed from the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.disruption.object_names import object_name, shown_zone, zone_of_object

PARTS = st.text(st.sampled_from("ab.-0"), max_size=4) | st.just("none")


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("/", "none"),
        ("east:/", "east:none"),
        ("eu/eu-1", "eu/eu-1"),
        ("eu/", "eu/"),
        ("east:eu/", "east:eu/"),
        ("", ""),
    ],
)
def test_a_zone_without_region_and_zone_is_shown_by_one_name(zone: str, shown: str) -> None:
    assert shown_zone(zone) == shown


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("eu/eu-1", "eu.eu-1"),
        ("/", "none"),
        ("/a", "none.a"),
        ("eu/", "eu.none"),
        ("eu.west/1", "eu.west:1"),
        ("none/a", "none:a"),
    ],
)
def test_the_name_of_a_zones_object(zone: str, name: str) -> None:
    assert object_name(zone) == name
    assert zone_of_object(name) == zone


@given(PARTS, PARTS)
def test_each_zone_has_a_name_of_its_own_that_leads_back(region: str, own: str) -> None:
    zone = f"{region}/{own}"
    assert zone_of_object(object_name(zone)) == zone
    assert zone_of_object(zone) == zone
    assert "/" not in object_name(zone)


@pytest.mark.parametrize("name", ["eu", "a.b.c"])
def test_what_is_no_name_of_a_zone_stays(name: str) -> None:
    assert zone_of_object(name) == name
