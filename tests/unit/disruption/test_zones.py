"""Zones: states and rates by the rules, and random outages, crashes, moves and late records compared with a model."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table
from tests.unit.disruption.zones_model import MICRO, ModelNode, Said, ZonesModel

from moorage.decide.disruption import zones as module
from moorage.decide.disruption.zones import ZoneDecisions, ZoneRules, ZoneTable
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.zone import KEPT_TRANSITIONS, NoExecuteGranted, ZoneChanged, ZoneMembered, ZoneState

START = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULT = ZoneRules(rate=0.1, secondary_rate=0.01, threshold=0.55, large=50, period=timedelta(seconds=5))


@table(
    ("nodes", "not_ready", "state"),
    [
        (1, 0, ZoneState.NORMAL),
        (1, 1, ZoneState.FULL_DISRUPTION),
        (3, 2, ZoneState.NORMAL),
        (4, 3, ZoneState.PARTIAL_DISRUPTION),
        (2, 2, ZoneState.FULL_DISRUPTION),
        (20, 10, ZoneState.NORMAL),
        (20, 11, ZoneState.PARTIAL_DISRUPTION),
        (100, 54, ZoneState.NORMAL),
        (100, 55, ZoneState.PARTIAL_DISRUPTION),
        (100, 99, ZoneState.PARTIAL_DISRUPTION),
        (100, 100, ZoneState.FULL_DISRUPTION),
    ],
)
def test_the_state_of_a_zone(nodes: int, not_ready: int, state: ZoneState) -> None:
    assert DEFAULT.state(nodes, not_ready) is state


def test_the_rate_of_a_zone() -> None:
    assert DEFAULT.rate_of(ZoneState.NORMAL, 10) == 0.1
    assert DEFAULT.rate_of(ZoneState.FULL_DISRUPTION, 1000) == 0.1
    assert DEFAULT.rate_of(ZoneState.PARTIAL_DISRUPTION, 51) == 0.01
    assert DEFAULT.rate_of(ZoneState.PARTIAL_DISRUPTION, 50) == 0.0


class World:
    """A table, its records, and a taint-manager that acts on its grants sooner or later."""

    def __init__(self, rules: ZoneRules = DEFAULT) -> None:
        self.rules = rules
        self.now = START
        self.table = ZoneTable(rules)
        self.members: dict[str, ZoneMembered] = {}
        self.records: dict[str, ZoneChanged] = {}
        self.words: dict[str, NoExecuteGranted] = {}
        self.said: list[Said] = []
        self.turned: set[str] = set()
        self.away = False
        """Whether the taint-manager does nothing while time passes."""

        self.written = 0
        self.lives = 0
        self.stops: list[tuple[datetime, bool]] = []
        self.rates: list[tuple[datetime, dict[str, float]]] = []
        self.lost: set[str] = set()
        """Zones that had lost all their nodes at some time."""

        self.places: list[str] = []
        """The zone of each grant or withdrawal."""

        self.lives_said: list[tuple[str, int, bool]] = []
        """The uid, incident and content of each grant or withdrawal."""

    def member(self, name: str, **changes: object) -> ZoneMembered:
        known = self.members.get(name)
        if known is None:
            self.lives += 1
            member = ZoneMembered(
                target=TargetRef(kind=TargetKind.NODE, name=name),
                target_uid=f"{name}-{self.lives}",
                zone="/",
                generation=1,
                ready=True,
                since=self.now,
            ).model_copy(update=changes)
        else:
            member = known.model_copy(update={"generation": known.generation + 1, **changes})
        self.members[name] = member
        self.table.set_member(f"Node/{name}", member)
        if member.tainted and not (known is not None and known.tainted):
            self.turned.add(f"Node/{name}")
        return member

    def fail(self, *names: str) -> None:
        for name in names:
            incident = self.members[name].generation + 1
            self.member(name, ready=False, incident=incident, since=self.now, tainted=False)

    def recover(self, *names: str) -> None:
        for name in names:
            self.member(name, ready=True, incident=0, since=self.now, tainted=False)

    def move(self, name: str, zone: str) -> None:
        self.member(name, zone=zone)

    def delete(self, name: str) -> None:
        del self.members[name]
        self.words.pop(name, None)
        self.table.set_member(f"Node/{name}", None)

    def heed(self, name: str) -> bool:
        """Let the taint-manager act on the last grant or withdrawal. Returns False if that changes nothing."""
        word, member = self.words.get(name), self.members.get(name)
        if word is None or member is None or (word.target_uid, word.incident) != (member.target_uid, member.incident):
            return False
        if member.tainted is word.granted:
            return False
        self.member(name, tainted=word.granted)
        return True

    def heed_all(self) -> bool:
        return sum(self.heed(name) for name in list(self.members)) > 0

    def decide(self) -> ZoneDecisions:
        decided = self.table.decide(self.now, self.turned)
        self.turned = set()
        generations = [record.generation for record in self.records.values()]
        for name, record in decided.zones:
            self.written += 1
            self.table.set_record(name, record)
            if record is None:
                del self.records[name]
                self.lost.add(name)
            else:
                assert record.generation > max(generations, default=0)
                self.records[name] = record
        for grant in decided.grants:
            known = self.words.get(grant.target.name)
            assert known is None or known.target_uid != grant.target_uid or known.generation < grant.generation
            self.words[grant.target.name] = grant
            self.said.append((self.now, grant.target.name, grant.incident, grant.granted))
            self.places.append(grant.zone)
            self.lives_said.append((grant.target_uid, grant.incident, grant.granted))
        self.table.done()
        self.rates.append((self.now, {name: record.rate for name, record in self.records.items()}))
        again = self.table.decide(self.now)
        assert again == ZoneDecisions(), "what is answered is not answered again"
        self.table.check_again()
        assert self.table.decide(self.now) == ZoneDecisions(), "looking again finds the same"
        self.table.done()
        return decided

    def advance(self, seconds: float) -> None:
        """Let time pass, with a taint-manager that acts on grants at once unless it is away."""
        end = self.now + timedelta(seconds=seconds)
        self.settle_and_heed()
        while (due := self.table.next_wake()) is not None and due <= end:
            assert due > self.now
            self.now = due
            before = len(self.said)
            self.settle_and_heed()
            assert len(self.said) > before, "woken for nothing"
        self.now = end
        self.settle_and_heed()

    def settle_and_heed(self) -> None:
        self.decide()
        while not self.away and self.heed_all():
            self.decide()

    def restart(self, seed: int = 0) -> None:
        """Build a new table from the topics, in the order in which a worker reads them."""
        self.table = ZoneTable(self.rules)
        order = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
        members = list(self.members.items())
        order.shuffle(members)
        records = list(self.records.items())
        order.shuffle(records)
        for name, member in members:
            self.table.set_member(f"Node/{name}", member)
        for name, record in records:
            self.table.set_record(name, record)

    def granted(self) -> list[str]:
        return [name for _, name, _, granted in self.said if granted]


def fleet(sizes: dict[str, int], rules: ZoneRules = DEFAULT) -> World:
    world = World(rules)
    for zone, size in sizes.items():
        for number in range(size):
            world.member(f"{zone}{number}", zone=zone)
    world.decide()
    return world


def test_a_lost_node_waits_and_the_next_ones_come_at_the_rate() -> None:
    world = fleet({"a": 20})
    world.fail("a3")
    world.advance(1)
    world.fail("a1", "a2")
    world.advance(100)
    begin = START + timedelta(seconds=5)
    times = [(when - begin).total_seconds() for when, *_ in world.said]
    assert world.granted() == ["a3", "a1", "a2"], "the oldest first, then by name"
    assert times == [0, 10, 20]


def test_a_node_that_recovers_is_not_in_the_queue_any_more() -> None:
    world = fleet({"a": 20})
    world.fail("a1", "a2", "a3")
    world.advance(5)
    assert world.granted() == ["a1"]
    assert [entry.target for entry in world.records["a"].queue] == ["Node/a2", "Node/a3"]
    world.recover("a2")
    world.advance(100)
    assert world.granted() == ["a1", "a3"]
    assert world.records["a"].queue == ()


def test_partial_disruption_stops_a_small_zone_and_slows_a_large_one() -> None:
    world = fleet({"small": 10, "large": 60, "well": 1})
    world.fail(*(f"small{n}" for n in range(6)), *(f"large{n}" for n in range(40)))
    world.advance(300)
    assert [record.state for record in world.records.values()] == [
        ZoneState.PARTIAL_DISRUPTION,
        ZoneState.PARTIAL_DISRUPTION,
        ZoneState.NORMAL,
    ]
    assert {name[:5] for name in world.granted()} == {"large"}
    # A new limiter is full if the one before it was. The first node is granted at once, then one in 100 s.
    assert [(when - START).total_seconds() for when, *_ in world.said] == [5, 105, 205]
    world.recover("small0", "small1")
    world.decide()
    assert world.records["small"].state is ZoneState.NORMAL
    assert world.records["small"].tokens == 0, "from no rate to one: empty, as upstream"
    resumed = world.now
    world.advance(25)
    small = [(when - resumed).total_seconds() for when, name, *_ in world.said if name.startswith("small")]
    assert small == [15, 25], "from the next tick on"


def test_the_record_of_a_zone_keeps_its_latest_states_with_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_TRANSITIONS", 4)
    world = World()
    names = [f"n{number}" for number in range(4)]
    for name in names:
        world.member(name)
    world.decide()
    begun = world.records["/"].history
    assert [(one.state, one.since, one.nodes, one.not_ready) for one in begun] == [(ZoneState.NORMAL, START, 4, 0)]
    states = []
    for failed in (3, 4, 3):
        world.now += timedelta(minutes=10)
        world.fail(*names[:failed])
        world.decide()
        kept = world.records["/"].history
        assert kept[-1].since == world.now
        states.append((kept[-1].state, kept[-1].not_ready))
        world.now += timedelta(minutes=1)
        world.recover(*names)
        world.decide()
    assert len(world.records["/"].history) == 4
    assert {state for state, _ in states} >= {ZoneState.PARTIAL_DISRUPTION, ZoneState.FULL_DISRUPTION}
    again = ZoneTable(DEFAULT)
    for name, member in world.members.items():
        again.set_member(f"Node/{name}", member)
    again.set_record("/", world.records["/"])
    world.table, before = again, world.records["/"].history
    world.now += timedelta(minutes=30)
    world.decide()
    assert world.records["/"].history == before, "a restart is no other state"


def test_a_state_that_is_passed_through_costs_no_token() -> None:
    world = fleet({"a": 6, "b": 1})
    for number in range(6):  # normal, partial, and finally full
        world.fail(f"a{number}")
        world.decide()
    assert world.records["a"].state is ZoneState.FULL_DISRUPTION
    world.advance(25)
    assert [(when - START).total_seconds() for when, *_ in world.said] == [5, 15, 25]


def test_one_zone_wholly_lost_goes_on_at_the_normal_rate() -> None:
    world = fleet({"a": 3, "b": 3})
    world.fail("a0", "a1", "a2")
    world.advance(25)
    assert world.records["a"].state is ZoneState.FULL_DISRUPTION
    assert world.granted() == ["a0", "a1", "a2"]


def test_every_zone_lost_stops_all_and_withdraws_what_was_granted() -> None:
    world = fleet({"a": 3, "b": 2})
    world.fail("a0", "a1", "a2")
    world.advance(5)
    world.heed("a0")
    world.advance(10)
    assert world.granted() == ["a0", "a1"]
    world.fail("b0", "b1")
    decided = world.decide()
    assert [(g.target.name, g.granted) for g in decided.grants] == [("a0", False), ("a1", False)]
    assert all(record.stopped and record.rate == 0 for record in world.records.values())
    world.heed_all()
    world.advance(1_000_000)
    assert world.granted() == ["a0", "a1"], "nothing while stopped"
    world.recover("b0")
    began = world.now
    world.advance(100)
    later = [(when - began).total_seconds() for when, name, _, granted in world.said[4:] if granted and name[0] == "a"]
    assert later == [15, 25, 35], "they wait again, and the bucket begins empty at the next tick"
    assert world.granted()[2:] == ["a0", "b1", "a1", "a2"], "the older incidents first"


def test_who_waited_when_all_was_down_waits_again_from_when_that_ends() -> None:
    world = fleet({"a": 3, "b": 1}, ZoneRules(math.inf, math.inf, 0.55, 0, timedelta(seconds=5)))
    world.fail("a0", "a1", "b0")
    world.advance(1)
    world.fail("a2")
    world.advance(1000)
    assert [name for _, name, _, granted in world.said if granted] == []
    world.recover("b0")
    world.decide()
    world.restart()
    assert world.now == START + timedelta(seconds=1001)
    world.advance(3.9)
    assert world.granted() == [], "the next tick is in four seconds"
    assert {entry.since for entry in world.records["a"].queue} == {world.records["a"].resumed_time}
    world.advance(0.1)
    assert world.granted() == ["a0", "a1", "a2"]


def test_all_down_within_the_period_nothing_is_ever_granted() -> None:
    world = fleet({"a": 10, "b": 10})
    for number in range(10):
        world.fail(f"a{number}", f"b{number}")
        world.advance(0.4)
    world.advance(100_000)
    assert world.said == []


def test_a_node_that_was_told_late_is_told_again_while_all_is_stopped() -> None:
    world = fleet({"a": 1})
    world.fail("a0")
    world.decide()
    assert world.records["a"].stopped
    world.member("a0", tainted=True)  # such as one of an earlier version without zones
    (grant,) = world.decide().grants
    assert (grant.granted, grant.incident) == (False, world.members["a0"].incident)


@pytest.mark.parametrize("new", ["b", "0"])  # written after the zone that it leaves, or before
def test_a_node_that_moves_keeps_its_incident_and_its_grant(new: str) -> None:
    world = fleet({"a": 5, "b": 5, "0": 5})
    world.away = True
    world.fail("a0", "a1", "b0")
    world.advance(5)
    assert world.granted() == ["a0", "b0"]
    world.move("a0", new)
    world.decide()
    assert "Node/a0" in [entry.target for entry in world.records[new].granted]
    assert world.records["a"].granted == ()
    world.restart()
    world.move("a0", "b")
    world.decide()
    assert [entry.target for entry in world.records["b"].granted] == ["Node/a0", "Node/b0"]
    world.restart()
    world.advance(3)
    world.heed_all()
    world.move("a1", "b")
    world.advance(100)
    assert world.granted() == ["a0", "b0", "a1"]
    assert {world.records["a"].not_ready, world.records["b"].not_ready} == {0, 3}


def test_generations_grow_for_a_node_whose_zones_come_and_go() -> None:
    world = fleet({"a": 1, "b": 2})
    words = []
    for zone in ("c", "a", "d", "b", "e"):
        world.move("a0", zone)
        world.fail("a0")
        world.advance(30)
        words.append(world.words["a0"].generation)
        world.recover("a0")
        world.decide()
        world.restart()
        assert world.table.member("Node/a0") == world.members["a0"]
    assert words == sorted(set(words))
    assert len(words) == 5
    assert set(world.records) == {"b", "e"}, "zones without nodes are gone"


def test_the_highest_generation_outlives_its_zone() -> None:
    world = fleet({"a": 2, "b": 2})
    world.fail("a0")
    world.advance(30)
    highest = max(record.generation for record in world.records.values())
    assert world.records["b"].generation < highest
    world.delete("a0")
    world.delete("a1")
    world.decide()
    assert world.records["b"].generation > highest


def test_a_node_made_again_with_the_same_numbers_is_another() -> None:
    world = fleet({"a": 5})
    world.away = True
    world.fail("a0")
    world.advance(5)
    old = world.members["a0"]
    again = old.model_copy(update={"target_uid": "another", "generation": 1})
    world.members["a0"] = again  # the tombstone in between was compacted away
    world.table.set_member("Node/a0", again)
    world.advance(30)
    assert world.granted() == ["a0", "a0"]
    assert world.words["a0"].target_uid == "another"


def test_stale_news_of_a_node_is_ignored() -> None:
    world = fleet({"a": 5})
    old = world.members["a0"]
    world.fail("a0")
    world.advance(5)
    world.table.set_member("Node/a0", old)
    assert world.decide() == ZoneDecisions()
    assert world.records["a"].not_ready == 1


def test_without_limits_all_go_at_once_but_no_more_than_a_record_can_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_GRANTS", 4)
    world = fleet({"a": 12, "b": 1}, ZoneRules(math.inf, math.inf, 0.55, 0, timedelta()))
    world.fail(*(f"a{n:x}" if n < 10 else f"a{n}" for n in range(11)))
    world.decide()
    assert len(world.granted()) == 4
    assert world.table.next_wake() is None
    world.heed_all()
    world.decide()
    world.heed_all()
    world.decide()
    assert len(set(world.granted())) == len(world.granted()) == 11


def test_while_nobody_does_what_is_granted_little_is_granted() -> None:
    world = fleet({"a": 100})
    world.away = True
    world.fail(*(f"a{n}" for n in range(40)))
    world.advance(600)
    assert world.granted() == ["a0"]
    assert world.table.next_wake() is None
    assert not world.table.may_grant(world.now)
    world.away = False
    world.advance(0)
    assert world.granted() == ["a0", "a1"], "the zone's one token has been kept"
    world.advance(95)
    assert len(world.granted()) == 11


@pytest.mark.parametrize(
    ("rate", "open_grants"), [(0.0, 1), (0.1, 1), (0.5, 1), (1.3, 3), (100.0, 200), (5000.0, 2000)]
)
def test_a_zone_keeps_few_grants_open(rate: float, open_grants: int) -> None:
    assert ZoneRules(rate, rate, 0.55, 50, timedelta()).open_grants(rate) == open_grants


@table("seconds", [0.01, 0.5, 1.9])
@table("rate", [0.1, 0.7, 3.0, 100.0])
def test_a_rate_is_not_limited_by_the_way_there_and_back(rate: float, seconds: float) -> None:
    world = fleet({"a": 900}, ZoneRules(rate, rate, 0.55, 50, timedelta()))
    world.away = True
    world.fail(*(f"a{n}" for n in range(400)))
    world.decide()
    begin = world.now
    on_their_way = [(world.now + timedelta(seconds=seconds), "a0")]
    while len(world.said) < 300:
        due = world.table.next_wake()
        arrives, name = on_their_way[0] if on_their_way else (None, "")
        if arrives is not None and (due is None or arrives <= due):
            world.now = arrives
            world.heed(name)
            on_their_way.pop(0)
        else:
            assert due is not None
            world.now = due
        known = len(world.said)
        world.decide()
        on_their_way += [(world.now + timedelta(seconds=seconds), name) for _, name, *_ in world.said[known:]]
    # A bucket has at most one token, so no time can be made up for. Any wait would show here.
    assert world.said[299][0] - begin <= timedelta(seconds=299 / rate, milliseconds=1)


@table("how", ["taint", "recover", "delete", "made again", "move", "another incident"])
@table("restarted", [False, True])
def test_whatever_becomes_of_a_granted_node_its_zone_goes_on(how: str, restarted: bool) -> None:  # noqa: FBT001 - a table's column
    world = fleet({"a": 20, "b": 1})
    world.away = True
    world.fail("a0", "a1")
    world.advance(60)
    assert world.granted() == ["a0"]
    if restarted:
        world.restart()
        world.advance(60)
        assert world.granted() == ["a0"], "what is granted and not confirmed is in the zone's record"
    match how:
        case "taint":
            world.heed("a0")
        case "recover":
            world.recover("a0")
        case "delete":
            world.delete("a0")
        case "made again":
            world.delete("a0")
            world.member("a0", zone="a")
        case "move":
            world.move("a0", "b")
        case "another incident":
            world.recover("a0")
            world.fail("a0")
    world.advance(0)
    assert world.granted() == ["a0", "a1"]


def test_a_changed_setting_takes_effect_on_restart() -> None:
    world = fleet({"a": 20})
    world.fail("a0", "a1")
    world.advance(5)
    world.rules = ZoneRules(1.0, 0.01, 0.55, 50, timedelta(seconds=5))
    world.restart()
    world.advance(1)
    assert world.records["a"].rate == 1.0
    world.advance(5)
    assert [(when - START).total_seconds() for when, *_ in world.said] == [5, 11], "from the next tick on"


def test_the_largest_record_of_a_zone_fits_into_kafkas() -> None:
    world = World(ZoneRules(math.inf, math.inf, 0.55, 0, timedelta()))
    count = module.OPEN_GRANTS + module.SHOWN
    longest = [f"{number:0253}" for number in range(count)]
    for name in [*longest, "well"]:
        world.member(name, zone=f"{'r' * 63}/{'z' * 63}", target_uid="u" * 36)
    world.fail(*longest)
    world.decide()
    (record,) = world.records.values()
    assert (len(record.granted), len(record.queue)) == (module.OPEN_GRANTS, module.SHOWN)
    full = record.model_copy(update={"history": record.history[-1:] * KEPT_TRANSITIONS})
    assert len(full.model_dump_json()) < 900_000


def test_a_clock_that_is_set_back_stops_nobody_for_long() -> None:
    world = fleet({"a": 10})
    world.now += timedelta(days=300)
    world.fail("a0")
    world.advance(5)
    world.now = START
    world.fail("a1")
    world.advance(15)
    assert world.granted() == ["a0", "a1"]


def test_a_node_that_waits_beyond_the_calendar_waits() -> None:
    world = fleet({"a": 10})
    world.member("a1", ready=False, incident=2, since=datetime.max.replace(tzinfo=UTC))
    world.advance(100)
    assert world.granted() == []


def test_a_long_queue_is_shown_by_its_head() -> None:
    world = fleet({"a": 300})
    world.fail(*(f"a{n}" for n in range(150)))
    world.decide()
    assert world.records["a"].waiting == 150
    assert len(world.records["a"].queue) == module.SHOWN


NAMES = [f"n{number}" for number in range(9)]
names, places = st.sampled_from(NAMES), st.sampled_from(["a", "b", "c"])
operations = st.one_of(
    st.tuples(st.just("fail"), names),
    st.tuples(st.just("fail"), names),
    st.tuples(st.just("fail_zone"), places),
    st.tuples(st.just("fail_all"), st.none()),
    st.tuples(st.just("recover_one"), st.none()),
    st.tuples(st.just("recover"), names),
    st.tuples(st.just("move"), st.tuples(names, places)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("heed"), names),
    st.tuples(st.just("heed_all"), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.3, 1, 4.9, 5, 7, 10, 33, 120])),
    st.tuples(st.just("restart"), st.integers(0, 99)),
    st.tuples(st.just("redeliver"), names),
)
rules = st.builds(
    ZoneRules,
    rate=st.sampled_from([0.1, 0.3, 1.0, 0.0, math.inf]),
    secondary_rate=st.sampled_from([0.01, 0.07, 0.1, math.inf]),
    threshold=st.sampled_from([0.55, 0.8]),
    large=st.sampled_from([0, 3, 5, 50]),
    period=st.sampled_from([timedelta(), timedelta(seconds=5)]),
)


class Play:
    """Applies the same steps to a table and to the model."""

    def __init__(self, chosen: ZoneRules) -> None:
        self.world, self.model = World(chosen), ZonesModel(chosen)
        self.said: list[Said] = []
        for number, name in enumerate(NAMES):
            self.world.member(name, zone="abc"[number % 3])
            self.model.nodes[name] = ModelNode("abc"[number % 3])
        self.decide()

    def decide(self) -> None:
        self.world.decide()
        # Within one instant, the order between zones does not matter.
        self.said += self.model.settle(self.world.now)
        assert sorted(self.world.said) == sorted(self.said)
        assert self.world.table.next_wake() == self.model.next_due(self.world.now)

    def see(self, name: str) -> None:
        """Give the taint-manager's record to the model."""
        member = self.world.members[name]
        known = self.model.nodes.get(name)
        same = known is not None and known.incident == member.incident
        granted = same and known is not None and known.granted and not member.tainted
        since = member.since if member.incident else None
        self.model.nodes[name] = ModelNode(member.zone, member.incident, since, member.tainted, granted)

    def fail(self, name: str) -> None:
        if name not in self.world.members:
            self.world.member(name, zone="a")
        if not self.world.members[name].incident:
            self.world.fail(name)
        self.see(name)

    def fail_zone(self, zone: str) -> None:
        for name, member in list(self.world.members.items()):
            if member.zone == zone:
                self.fail(name)

    def fail_all(self, _: None) -> None:
        for zone in "abc":
            self.fail_zone(zone)

    def recover_one(self, _: None) -> None:
        for name in list(self.world.members)[:1]:
            self.recover(name)

    def recover(self, name: str) -> None:
        if name in self.world.members and self.world.members[name].incident:
            self.world.recover(name)
            self.see(name)

    def move(self, what: tuple[str, str]) -> None:
        if what[0] in self.world.members:
            self.world.move(*what)
            self.see(what[0])

    def delete(self, name: str) -> None:
        if name in self.world.members:
            self.world.delete(name)
            del self.model.nodes[name]

    def heed(self, name: str) -> None:
        if self.world.heed(name):
            self.see(name)

    def heed_all(self, _: None = None) -> None:
        for name in list(self.world.members):
            self.heed(name)

    def wait(self, seconds: float) -> None:
        self.decide()
        end = self.world.now + timedelta(seconds=seconds)
        while (due := self.model.next_due(self.world.now)) is not None and due <= end:
            self.world.now = due
            self.decide()
        self.world.now = end

    def restart(self, seed: int) -> None:
        self.decide()  # records that are not written yet would be read again; the tests of services cover that
        self.world.restart(seed)

    def redeliver(self, name: str) -> None:
        if name in self.world.members:
            self.world.table.set_member(f"Node/{name}", self.world.members[name])

    def check_rates(self) -> None:
        """No interval of a zone has more grants than one token plus what the highest rate in it gives."""
        world = self.world
        spans = list(zip(world.rates, [*(when for when, _ in world.rates[1:]), world.now], strict=True))
        for zone in sorted({*"abc"} - world.lost):  # a zone that is created again starts with a token
            grants = [s[0] for s, place in zip(world.said, world.places, strict=True) if s[3] and place == zone]
            for first, begin in enumerate(grants):
                for count, end in enumerate(grants[first:], 1):
                    found = [r.get(zone, 0.0) for (since, r), until in spans if since <= end and until >= begin]
                    if (highest := max(found)) != math.inf:
                        seconds = Fraction((end - begin) // MICRO, 1_000_000)
                        assert count <= 1 + Fraction(str(highest)) * seconds, (zone, begin, end)


@settings(max_examples=80)
@given(rules, st.lists(st.tuples(operations, st.booleans()), min_size=10, max_size=60))
def test_random_outages_are_decided_as_by_the_model(
    chosen: ZoneRules, life: list[tuple[tuple[str, object], bool]]
) -> None:
    play = Play(chosen)
    for (verb, what), at_once in life:
        getattr(play, verb)(what)
        if at_once:
            play.decide()
    play.decide()
    world = play.world
    play.check_rates()
    standing: dict[tuple[str, int], bool] = {}
    for uid, incident, granted in world.lives_said:
        assert not (granted and standing.get((uid, incident))), "nothing is granted twice"
        standing[uid, incident] = granted
    # In the end, every node whose zone has a rate gets the taint.
    world.member("witness", zone="z")
    play.see("witness")
    for _ in range(3 * len(NAMES)):
        play.heed_all()
        play.wait(1000)
    for record in world.records.values():
        assert record.waiting == 0 or record.rate == 0
