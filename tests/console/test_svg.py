"""The pictures as SVG: well-formed, within their bounds, described, and true to their data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from moorage.console.pictures.chain_graph import ChainLink, chain_graph
from moorage.console.pictures.condition_strips import SPAN, ConditionStrip, EarlierStatus, condition_strips
from moorage.console.pictures.gantt import MOST, EvictionSpan, gantt
from moorage.console.pictures.incident_timeline import (
    MOST_POINTS,
    TimelineBar,
    TimelineLane,
    TimelinePoint,
    incident_timeline,
)
from moorage.console.pictures.matrix import MOST_CLUSTERS, MOST_WORKLOADS, matrix
from moorage.console.pictures.score_stack import ScoreBar, score_stack
from moorage.console.pictures.sparkline import Series, sparkline
from moorage.console.pictures.zone_bar import MOST_WAITING, ZoneGauge, zone_bar

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=20)
times = st.datetimes(datetime(2025, 12, 1), datetime(2026, 2, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants it naive
maybe = st.none() | times
spans = st.builds(
    EvictionSpan,
    texts,
    texts,
    st.sampled_from(["Scheduled", "Held", "Requested", "Completed", "Cancelled"]),
    times,
    maybe,
    maybe,
    maybe,
)
counts = st.integers(0, 100_000)
gauges = st.builds(
    ZoneGauge, counts, counts, st.none() | st.floats(0, 1), st.none() | st.floats(-1, 2), texts, counts, counts
)
scores = st.dictionaries(st.sampled_from("abc"), st.integers(-100, 1000))


def parsed(svg: Markup) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - it was made here


def shapes(svg: Markup, kind: str) -> list[ET.Element]:
    """The shapes of a class."""
    return [one for one in parsed(svg).iter() if kind in one.get("class", "").split()]


def places(svg: Markup) -> Iterator[float]:
    """The places of all shapes in percent, ends included."""
    for one in parsed(svg).iter():
        for name in ("x", "x1", "x2", "cx"):
            if one.get(name, "").endswith("%"):
                yield float(one.get(name, "")[:-1])
        if one.tag == "rect" and one.get("width", "").endswith("%"):
            yield float(one.get("x", "")[:-1]) + float(one.get("width", "")[:-1])


def check(svg: Markup) -> None:
    """A picture is well-formed XML, has a name and a description, and nothing is outside of it or inline."""
    root = parsed(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert next(one.text for one in root.findall("desc"))
    assert all(-0.01 <= place <= 100.02 for place in places(svg))
    assert not [one for one in root.iter() if "style" in one.attrib or "id" in one.attrib or one.tag == "script"]


@given(st.lists(spans, max_size=50), times)
def test_evictions_are_drawn_whatever_their_times(evictions: list[EvictionSpan], now: datetime) -> None:
    svg = gantt(evictions, now)
    check(svg)
    assert len(shapes(svg, "due")) == sum(one.due is not None for one in evictions[:MOST])


@given(
    st.lists(st.builds(ConditionStrip, texts, st.sampled_from(["True", "False", "Unknown", ""]), maybe, maybe)), times
)
def test_conditions_are_drawn_as_far_as_they_are_kept(conditions: list[ConditionStrip], now: datetime) -> None:
    svg = condition_strips(conditions, now)
    check(svg)
    assert sum(len(shapes(svg, kind)) for kind in ("yes", "no", "unknown")) == len(conditions)
    recent = [one for one in conditions if one.heartbeat is not None and one.heartbeat >= now - SPAN]
    assert len(shapes(svg, "due")) == len(recent)


def test_a_condition_is_drawn_from_its_last_change_on() -> None:
    kept = ConditionStrip("Ready", "False", NOW - timedelta(hours=6), NOW - timedelta(hours=12))
    svg = condition_strips([kept], NOW)
    assert [(one.get("x"), one.get("width")) for one in shapes(svg, "no")] == [("75.00%", "25.00%")]
    assert [one.get("width") for one in shapes(svg, "unrecorded")] == ["75.00%"]
    assert [one.get("x1") for one in shapes(svg, "due")] == ["50.00%"]
    before = EarlierStatus("True", NOW - timedelta(hours=12), NOW - timedelta(hours=6))
    longer = condition_strips([ConditionStrip("Ready", "False", NOW - timedelta(hours=6), None, [before])], NOW)
    assert [(one.get("x"), one.get("width")) for one in shapes(longer, "yes")] == [("50.00%", "25.00%")]
    old = condition_strips([ConditionStrip("Ready", "True", NOW - timedelta(days=9), None)], NOW)
    assert [one.get("width") for one in shapes(old, "yes")] == ["100.00%"]
    assert not shapes(old, "unrecorded")


bars = st.builds(TimelineBar, st.just("held"), times, times, texts)
points = st.builds(TimelinePoint, st.just("queued"), times, texts)


@given(texts, st.lists(st.builds(TimelineLane, texts, st.lists(bars), st.lists(points)), max_size=6), times, times)
def test_incidents_are_drawn_whatever_their_times(
    name: str, lanes: list[TimelineLane], start: datetime, end: datetime
) -> None:
    svg = incident_timeline(name, lanes, start, end)
    check(svg)
    assert len(shapes(svg, "held")) == sum(len(lane.bars) for lane in lanes)
    assert len(shapes(svg, "queued")) == sum(len(lane.points) for lane in lanes)


def test_many_points_of_a_lane_are_not_drawn() -> None:
    lane = TimelineLane("Evictions", (), [TimelinePoint("queued", NOW, "x")] * 500)
    svg = incident_timeline("eu/eu-1", [lane], NOW, NOW + timedelta(hours=1))
    assert len(shapes(svg, "queued")) == MOST_POINTS
    assert "Evictions: 500" in svg


@given(texts, gauges)
def test_zones_are_drawn_whatever_their_numbers(name: str, zone: ZoneGauge) -> None:
    svg = zone_bar(name, zone)
    check(svg)
    assert len(shapes(svg, "queued")) == min(zone.waiting, MOST_WAITING)


@given(st.lists(st.builds(ScoreBar, texts, st.integers(), scores), max_size=12))
def test_scores_are_drawn_whatever_they_are(stacks: list[ScoreBar]) -> None:
    check(score_stack(stacks, ["a", "b", "c"]))


@given(texts, st.lists(st.builds(ChainLink, texts, maybe), max_size=20))
def test_chains_are_drawn_as_far_as_their_times_are_recorded(about: str, causes: list[ChainLink]) -> None:
    svg = chain_graph(about, causes)
    if any(one.time for one in causes):
        check(svg)
        assert len(shapes(svg, "event")) == sum(one.time is not None for one in causes)
        assert len(shapes(svg, "edge")) == 2 * (len(causes) - 1)
    else:
        assert svg == ""


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=90))
def test_series_are_drawn_whatever_their_values(values: list[int]) -> None:
    series = Series("Not ready", values, NOW, timedelta(minutes=1))
    check(sparkline(series, "notready"))
    assert series.rows[0][1] == values[-1]
    assert series.rows[-1] == (NOW - timedelta(minutes=len(values) - 1), values[0])


@given(st.lists(st.tuples(texts, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9))), max_size=60))
def test_placements_are_drawn_whatever_their_number(workloads: list[tuple[str, dict[str, int]]]) -> None:
    svg = matrix(workloads, ["x", "y", "z"])
    check(svg)
    assert len(shapes(svg, "inside")) == sum(len(placed) for _, placed in workloads[:MOST_WORKLOADS])


def test_a_matrix_has_a_bound_of_clusters() -> None:
    many = {f"c{number:02}": 1 for number in range(40)}
    assert len(shapes(matrix([("shop/web", many)], sorted(many)), "inside")) == MOST_CLUSTERS


def test_a_zone_shows_its_threshold_its_token_and_its_queue() -> None:
    zone = ZoneGauge(12, 7, 0.55, 0.4, "1 every 10s", 3, 1)
    svg = zone_bar("eu/eu-1", zone)
    assert [one.get("x1") for one in shapes(svg, "limit")] == ["55.00%"]
    assert [one.get("width") for one in shapes(svg, "bad")] == ["58.33%"]
    assert [one.get("width") for one in shapes(svg, "token")] == ["17.60%"]
    assert len(shapes(svg, "queued")) == 3
    assert "7 of 12 nodes are not ready. The threshold of partial disruption is 55%." in svg
    assert not shapes(zone_bar("z", ZoneGauge(12, 7, None, None, "", 0, 0)), "limit")


def test_an_eviction_is_hatched_from_its_deadline_while_it_is_held() -> None:
    start, due = NOW - timedelta(minutes=10), NOW - timedelta(minutes=5)
    svg = gantt([EvictionSpan("default/a", "n1", "Held", start, due, None)], NOW)
    wait, held = shapes(svg, "wait")[0], shapes(svg, "hatched")[0]
    assert wait.get("x") == "0.00%"
    assert float(str(held.get("x"))[:-1]) == pytest.approx(float(str(wait.get("width"))[:-1]), abs=0.02)
    assert float(str(held.get("width"))[:-1]) == pytest.approx(float(str(wait.get("width"))[:-1]), abs=0.02)
    scheduled = gantt([EvictionSpan("default/a", "n1", "Scheduled", start, NOW + timedelta(minutes=5), None)], NOW)
    assert not shapes(scheduled, "hatched")
    requested = EvictionSpan("default/a", "n1", "Completed", start, due, NOW, NOW - timedelta(minutes=2))
    assert len(shapes(gantt([requested], NOW), "hatched")) == 1, "it was held until it was requested"
    assert len(shapes(gantt([requested], NOW), "done")) == 1


def test_the_parts_of_a_score_are_as_wide_as_they_count() -> None:
    svg = score_stack(
        [ScoreBar("n1", 190, {"A": 90, "B": 100}, is_chosen=True), ScoreBar("n2", 95, {"A": 95})], ["A", "B"]
    )
    assert [one.get("width") for one in shapes(svg, "c0")] == ["47.37%", "50.00%", "10"]
    assert [one.get("x") for one in shapes(svg, "c1")] == ["47.37%", "0"]
    assert "n1: 190, chosen" in svg


def test_a_chain_shows_the_time_of_each_event_after_the_first() -> None:
    links = [
        ChainLink("condition-reports", NOW),
        ChainLink("conditions", NOW + timedelta(milliseconds=12)),
        ChainLink("lost", None),
        ChainLink("evictions", NOW + timedelta(minutes=5)),
    ]
    svg = chain_graph("the eviction", links)
    labels = [one.text for one in parsed(svg).iter("text") if not one.get("class")]
    assert labels == ["condition-reports", "conditions +0.012s", "lost +0.012s", "evictions +5m"]
    assert "It took 5m." in svg


def test_texts_of_others_stay_texts() -> None:
    hostile = '"><script>alert(1)</script><text x="'
    for svg in (
        zone_bar(hostile, ZoneGauge(1, 1, 0.55, 1, hostile, 1, 1)),
        gantt([EvictionSpan(hostile, hostile, hostile, NOW, NOW, None)], NOW),
        score_stack([ScoreBar(hostile, 1, {hostile: 1})], [hostile]),
        chain_graph(hostile, [ChainLink(hostile, NOW)]),
        matrix([(hostile, {hostile: 1})], [hostile]),
        condition_strips([ConditionStrip(hostile, hostile, NOW, NOW)], NOW),
        sparkline(Series(hostile, [1], NOW, timedelta(minutes=1)), "notready"),
    ):
        check(svg)
        assert not re.search("<script", svg)


def test_the_table_of_a_series_has_its_changes_newest_first() -> None:
    series = Series("Not ready", [0, 0, 2, 2, 1], NOW, timedelta(minutes=1))
    minute = timedelta(minutes=1)
    assert series.rows == [(NOW, 1), (NOW - 2 * minute, 2), (NOW - 4 * minute, 0)]
