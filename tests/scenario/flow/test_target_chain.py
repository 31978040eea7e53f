"""What is explained of a node through its outage: report, condition, taints, the wait for the zone, eviction."""

from __future__ import annotations

import json
from typing import Any

from tests.component.query.following import Following
from tests.scenario.flow.test_zones import NOT_READY, PATIENCE, Outage

from moorage.insight.explain.question import Question


class Asked:
    """A node, and questions about it: from tables that follow the topics, and from a copy of them."""

    def __init__(self, world: Outage, node: str) -> None:
        self.following = Following(world.flow, world.settings)
        self.node = node

    async def now(self) -> Any:
        """The explanation now."""
        self.following.follow()
        question = Question("Node", "", self.node)
        told = await self.following.explained(question)
        assert told == await self.following.from_topics(question)
        return json.loads(told)


def way(document: Any, about: str) -> list[str]:
    """The topics of the chain about something."""
    chain = next(one for one in document["chains"] if one["about"].startswith(about))
    assert chain["whole"]
    return [step["topic"] for step in chain["steps"]]


async def test_a_node_through_its_outage() -> None:
    world = Outage({"a": 4, "b": 4}, replicas=8, node_eviction_rate=0.1)
    world.ready("True", *world.zone_of)
    world.flow.advance(20)
    asked = Asked(world, "a01")

    document = await asked.now()
    assert (document["status"], document["taints"], document["notReadySince"]) == ("Ready", [], None)
    (condition,) = document["conditions"]
    assert (condition["status"], condition["source"], condition["silent"]) == ("True", "probe", False)
    assert way(document, "the condition Ready=True of node a01") == ["condition-reports", "conditions"]

    world.ready("False", "a00", "a01")
    world.flow.advance(8)  # the zone's one token went to the other node
    document = await asked.now()
    assert document["status"] == "NotReady"
    (taint,) = document["taints"]
    assert (taint["taint"], taint["origins"][0]["origin"]) == (f"{NOT_READY}:NoSchedule", "condition")
    (held,) = document["held"]
    assert (held["taint"], held["place"]) == (f"{NOT_READY}:NoExecute", 1)
    assert held["reason"] == "condition Ready is False; waits for a grant in zone /a"
    assert held["zone"]["what"] == "zone /a Normal: 2 of 4 not ready, 1 waiting, 1 every 10s"
    assert held["event"] == taint["origins"][0]["event"], "it waits since the other taint was added"
    assert way(document, f"the taint {NOT_READY}:NoSchedule of node a01") == [
        *("condition-reports", "conditions", "taints")
    ]
    assert document["evictions"] == []

    world.flow.advance(60)
    document = await asked.now()
    assert document["held"] == []
    (eviction,) = document["evictions"]
    assert (eviction["state"], eviction["taints"]) == ("Scheduled", [f"{NOT_READY}:NoExecute"])
    assert [one["evictions"] for one in document["taints"]] == [0, 1]
    granted = ["condition-reports", "conditions", "zone-members", "zone-grants", "taints"]
    assert way(document, f"the taint {NOT_READY}:NoExecute of node a01") == granted
    assert way(document, "the eviction of pod default/web-") == [*granted, "evictions"]

    world.flow.advance(PATIENCE)
    document = await asked.now()
    assert document["evictionStates"] == {"Completed": 1}
    assert document["taints"][1]["evictions"] == 0
    assert way(document, "the eviction of pod default/web-")[:6] == [*granted, "timers"]

    world.ready("True", "a01")
    document = await asked.now()
    assert (document["status"], document["taints"], document["held"]) == ("Ready", [], [])


async def test_a_grant_that_the_governor_withdraws_is_explained() -> None:
    world = Outage({"a": 3}, node_eviction_rate=0.1)
    world.ready("True", *world.zone_of)
    world.flow.advance(20)
    asked = Asked(world, "a00")
    world.ready("False", "a00")
    world.flow.advance(20)
    document = await asked.now()
    assert [one["taint"] for one in document["taints"]] == [f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"]
    world.ready("False", "a01", "a02")
    world.flow.advance(20)
    document = await asked.now()
    (held,) = document["held"]
    assert held["reason"] == "condition Ready is False; no node of any zone is ready"
    assert document["zone"]["state"] == "FullDisruption"
    assert way(document, f"the wait of taint {NOT_READY}:NoExecute of node a00")[-2:] == ["zone-grants", "taints"]
