"""The counts of the console are those of the gauges on `/metrics`, for the same records of all services."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import timedelta

from tests.console.test_pages import text_of
from tests.console.world import ConsoleWorld
from tests.scenario.flow.test_acknowledgements import binding, runs
from tests.scenario.flow.test_measures import MeasuredWorld, act, random_world
from tests.support.worlds.measured import Values, shown, without_zeros
from tests.support.worlds.nodes import pod_spec

from moorage_schemas.topics import BINDINGS, BUDGETS, CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, ZONES

TOPICS = (RESOURCES, CONDITIONS, TAINTS, BINDINGS, PLACEMENTS, EVICTIONS, ZONES, BUDGETS)
NODES = ("Ready", "Unreported", "Unknown", "NotReady")
OPEN = ("Requested", "Held", "Scheduled")
SEEDS = (1, 4, 6)  # 4 and 6 reach every state


def disrupted(seed: int) -> MeasuredWorld:
    """A fleet after a random history in which nodes of one zone have failed, and evictions are held and scheduled."""
    world, rng = random_world(seed), random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    for name in ("x1", "x2", "x3", "x4"):
        world.node(name, zone="north")
    for _ in range(30):
        act(world, rng)
    world.flow.run()
    later = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100_000}
    for name, node, tolerations in (("asked", "x4", []), ("later", "x1", [later])):
        world.declare("Pod", name, pod_spec(nodeName=node, tolerations=tolerations))
        world.flow.run()
        runs(world, binding(world, name))
        world.delete("EvictionPause", "all")
        world.taint(node, "stay", "NoExecute")
        world.flow.run()
    for name in ("x1", "x2", "x3"):
        world.report(name, status="False", source="p1")
    world.report("x4", status="True", source="p1")
    world.flow.advance(rng.choice((1, 30, 400)))
    return world


def console_of(world: MeasuredWorld) -> ConsoleWorld:
    """Return a gateway that has read what the services have written."""
    made = ConsoleWorld()
    made.clock.time = world.flow.now + timedelta(seconds=1)
    for topic in TOPICS:
        for key, event in world.flow.table(topic).items():
            made.log.append(topic, key, key, event)
    return made


def of_zones(values: Values, name: str) -> dict[str, int]:
    return {zone: int(value) for (zone,), value in values.get(name, {}).items()}


async def check(console: ConsoleWorld, gauges: Values) -> set[str]:
    """Compare the pages with the gauges. Return the words that were seen with another number than 0."""
    targets = without_zeros(gauges.get("moorage_targets", {}))
    states = Counter[str]()
    for (_, _, state), value in targets.items():
        states[state] += int(value)
    fleet = text_of((await console.page("/")).text)
    words = " ".join(f"{state} {states[state]}" for state in NODES)
    assert f"Nodes {states.total()} {words} " in fleet

    for (kind, zone, state), value in targets.items():
        html = (await console.page(f"/console/targets?kind={kind}&zone={zone}&state={state}")).text
        assert len(re.findall(r'id="target-Node-', html)) == value, (zone, state)

    evictions = {
        state: int(value) for (state,), value in without_zeros(gauges.get("moorage_evictions_open", {})).items()
    }
    page = text_of((await console.page("/console/evictions")).text)
    for state in OPEN:
        found = re.search(rf"(\d+) {state} ", page)
        assert (int(found[1]) if found else 0) == evictions.get(state, 0), state
    held = (await console.page("/console/evictions?state=Held")).text
    assert len(re.findall(r'id="eviction-Eviction/', held)) == evictions.get("Held", 0)

    not_ready, waiting = (
        of_zones(gauges, "moorage_zone_not_ready_nodes"),
        of_zones(gauges, "moorage_zone_waiting_nodes"),
    )
    state_of = {zone: state for (zone, state), value in gauges.get("moorage_zone_state", {}).items() if value}
    rows = await zone_rows(console)
    expected = {
        zone: [state_of[zone], str(nodes), str(not_ready[zone]), str(waiting[zone])]
        for zone, nodes in of_zones(gauges, "moorage_zone_nodes").items()
    }
    assert rows == expected
    return {*states, *evictions, *state_of.values(), *("waiting" for count in waiting.values() if count)}


async def zone_rows(console: ConsoleWorld) -> dict[str, list[str]]:
    """Return state, nodes, nodes that are not ready, and nodes that wait, of each zone on the page of zones."""
    body = (await console.page("/console/zones")).text.rpartition("<tbody>")[2].partition("</tbody>")[0]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL):
        cells = [text_of(cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        found[cells[0]] = [cells[1].partition(",")[0], cells[2], cells[3], cells[7]]
    return found


async def test_the_counts_of_the_console_are_those_of_the_gauges() -> None:
    seen: set[str] = set()
    for seed in SEEDS:
        world = disrupted(seed)
        seen |= await check(console_of(world), shown(world.flow))
    assert {*NODES, *OPEN, "Normal", "PartialDisruption", "FullDisruption", "waiting"} <= seen, "each was compared"
