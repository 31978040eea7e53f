"""New placements wait for what has changed before them and counts for them, and not for ever."""

from __future__ import annotations

import asyncio

from tests.support.virtual_time import virtual_time

from moorage.bridges.engine.mirror import MirroredState
from moorage.bridges.ocm.hub_bridge import HubContent, NewPlacements


def content(digest: bytes, available: str = "True") -> HubContent:
    return HubContent(MirroredState("u1", digest), available)


class Hub:
    """Clusters that the topics know, and placements that were released."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.released: list[str] = []
        self.placements = NewPlacements(lambda name, _content: name in self.known, self.released.append)

    def changed(self, *names: str, digest: bytes = b"new", available: str = "True") -> None:
        for name in names:
            self.known.discard(name)
            self.placements.changed(name, content(digest, available))

    def know(self, *names: str) -> None:
        """The topics know clusters, and it is told."""
        self.known.update(names)
        for name in names:
            self.placements.check(name)


@virtual_time
async def test_a_placement_is_held_until_it_is_told_that_the_clusters_before_it_are_known() -> None:
    hub = Hub()
    hub.changed("a", "b")
    assert hub.placements.hold("p")
    hub.changed("c")
    assert hub.placements.hold("q")
    hub.know("a")
    assert hub.released == []
    hub.know("b")
    assert hub.released == ["p"], "at once"
    assert not hub.placements.holds("p")
    assert hub.placements.holds("q"), "for c"
    hub.know("c")
    assert hub.released == ["p", "q"]


@virtual_time
async def test_nothing_is_held_where_every_cluster_is_known() -> None:
    hub = Hub()
    hub.changed("a")
    hub.know("a")
    hub.changed("a")  # something of it has changed that is not mirrored
    assert not hub.placements.hold("p")


@virtual_time
async def test_a_cluster_that_is_gone_counts_until_the_topics_know_it() -> None:
    hub = Hub()
    hub.changed("a")
    hub.know("a")
    hub.known.clear()
    hub.placements.changed("a", None)
    assert hub.placements.hold("p")
    hub.know("a")
    assert hub.released == ["p"]
    hub.placements.changed("a", None)
    assert not hub.placements.hold("q")


@virtual_time
async def test_whether_a_cluster_is_available_counts() -> None:
    hub = Hub()
    hub.changed("a")
    hub.know("a")
    hub.changed("a", available="Unknown")
    assert hub.placements.hold("p")


@virtual_time
async def test_nobody_waits_for_long_for_a_cluster_that_never_becomes_known() -> None:
    hub = Hub()
    hub.changed("a")
    await asyncio.sleep(5)
    assert hub.placements.hold("p")
    await asyncio.sleep(4.9)
    assert hub.placements.hold("p"), "it is still held, and not for longer"
    await asyncio.sleep(0.2)
    assert hub.released == ["p"]
    assert not hub.placements.hold("q")
    hub.changed("a", digest=b"newer")
    assert hub.placements.hold("q")
