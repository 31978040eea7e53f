"""New placements wait for the clusters that were there before them, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.waiting import until

from moorage.bridge.ocm.new_placements import NewPlacements


class Hub:
    """Clusters that the topics know, and placements that were released."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.released: list[str] = []
        self.placements = NewPlacements(self.known.__contains__, self.released.append)


@pytest_asyncio.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub()
    task = asyncio.create_task(hub.placements.run())
    yield hub
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_placement_is_held_until_the_clusters_before_it_are_known(hub: Hub) -> None:
    hub.placements.cluster_changed("a")
    assert hub.placements.hold("p")
    hub.placements.cluster_changed("b")
    assert hub.placements.holds("p")
    hub.known.add("a")
    await until(lambda: hub.released == ["p"], 2.0, "the placement is held")
    assert not hub.placements.holds("p")
    assert hub.placements.hold("q")  # for b


async def test_nothing_is_held_where_every_cluster_is_known(hub: Hub) -> None:
    hub.known.add("a")
    hub.placements.cluster_changed("a")
    assert not hub.placements.hold("p")


async def test_a_cluster_that_never_becomes_known_holds_up_one_placement_for_a_while(hub: Hub) -> None:
    hub.placements.cluster_changed("a")
    assert hub.placements.hold("p")
    await until(lambda: hub.released == ["p"], 10.0, "the placement is held")
    assert not hub.placements.hold("q")
