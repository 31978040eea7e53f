"""A bridge that is killed around any of the batches of its start: the next one comes to the same end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.component.bridge.cluster import node, pod
from tests.component.bridge.gateway import Held
from tests.component.bridge.rig import Rig, rig
from tests.component.bridge.test_restarts import EXPECTED, decide, end, is_write, prepare
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine import batches
from moorage_schemas.topics import RESOURCES

BATCHES = 6
"""Of two objects each: three nodes, two controllers, five pods. Some are sent again as the bridge has acted on them."""

_VARIES = ("resourceVersion", "uid", "clusterUid", "targetUid", "workloadUid", "creationTimestamp")
"""Fields that differ from run to run."""

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "AT_ONCE", 2)


async def begin(here: Rig) -> None:
    """A cluster about which everything is decided already, as soon as it is mirrored."""
    await prepare(here)
    for name in ("n2", "n3"):
        here.store.create("Node", node(name))
    for kind in ("Deployment", "StatefulSet"):
        here.store.create(kind, {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 1}})
    for number in (2, 3):
        here.store.create("Pod", pod(f"web-{number}", node=f"n{number}", uid=f"u-web-{number}"))
    decide(here)
    for number in (2, 3):
        here.topics.bind(f"web-{number}", f"u-web-{number}", f"n{number}")


def ends(here: Rig) -> Json:
    """The cluster as it is, and what the topics have of it, without versions."""
    records = {f"{topic.short} {key}": record.event for (topic, key), record in here.topics.records.items()}
    return {
        **end(here),
        "topics": {key: event and _plain(event.model_dump(mode="json")) for key, event in records.items()},
    }


def _plain(event: Json) -> Json:
    """A record without what differs from run to run: versions, uids that the cluster made, and times."""
    text = orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    found: Json = orjson.loads(text)
    _drop(found)
    return found


def _drop(value: Any) -> None:
    if isinstance(value, list):
        for one in value:
            _drop(one)
    elif isinstance(value, dict):
        for name in _VARIES:
            value.pop(name, None)
        for one in value.values():
            _drop(one)


def acts(here: Rig) -> Counter[str]:
    """What was written to the cluster. A killed process may owe an event of what it has done."""
    return Counter(str(seen) for seen in here.api.writes if is_write(seen) and not seen.path.endswith("/events"))


def _once(done: Counter[str]) -> Counter[str]:
    """The acts that are not repeated without harm: all but patches."""
    return Counter({act: count for act, count in done.items() if not act.startswith("PATCH")})


def sent(here: Rig) -> Counter[bytes]:
    """How often each state of an object was sent and recorded."""
    states: Counter[bytes] = Counter()
    for batch in here.gateway.mirrored:
        for one in batch["objects"]:
            metadata = {name: value for name, value in one["metadata"].items() if name != "resourceVersion"}
            states[orjson.dumps({**one, "metadata": metadata}, option=orjson.OPT_SORT_KEYS)] += 1
    return states


async def settled(here: Rig) -> None:
    await until(lambda: {**end(here), "pods": _decided(here)} == EXPECTED)
    await here.quiet(90)


def _decided(here: Rig) -> Json:
    return {name: found for name, found in end(here)["pods"].items() if not name.startswith("web-")}


async def undisturbed(folder: Path) -> tuple[Json, Counter[str]]:
    async with rig(folder) as here:
        await begin(here)
        await here.run()
        await settled(here)
        return ends(here), acts(here)


@virtual_time
async def test_the_start_has_so_many_batches(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        await begin(here)
        await here.run()
        await settled(here)
        assert len([one for one in here.gateway.mirrored if one["objects"] or one["deleted"]]) == BATCHES
        assert max(sent(here).values()) == 1


@virtual_time
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(BATCHES))
async def test_it_may_be_killed_before_or_after_any_batch_is_recorded(tmp_path: Path, number: int, moment: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    expected, done = await undisturbed(tmp_path / "one")
    async with rig(tmp_path / "other") as here:
        await begin(here)
        held = here.gateway.held = Held(number, written=moment == "after")
        bridge = await here.start()
        await held.reached.wait()
        await here.kill(bridge)
        await here.run()
        await settled(here)
        assert ends(here) == expected
        # A mark is written again if the bridge was killed before the deletion, and taints after a conflict.
        assert acts(here).keys() == done.keys()
        assert _once(acts(here)) == _once(done)
        assert max(sent(here).values()) == 1


@virtual_time
@pytest.mark.parametrize("number", range(BATCHES))
async def test_a_batch_of_a_killed_process_may_be_recorded_late(tmp_path: Path, number: int) -> None:
    """The gateway had it already, and writes it after the next process has sent what has changed meanwhile."""
    async with rig(tmp_path) as here:
        await begin(here)
        held = here.gateway.held = Held(number, written=False)
        bridge = await here.start()
        await held.reached.wait()
        await here.kill(bridge)
        for name in ("n2", "n3"):
            here.store.delete("Node", name)
        for number_of_pod in (2, 3):
            here.store.delete("Pod", f"web-{number_of_pod}", "default")
        for kind in ("Deployment", "StatefulSet"):
            here.store.delete(kind, "web", "default")
        await here.run()
        await settled(here)
        before = keys(here)
        held.going_on.set()
        await here.quiet(300)
        assert keys(here) == before
        assert {key.split("/")[-1] for key in before} == {"n1", "job", "large"}


def keys(here: Rig) -> list[str]:
    """The objects that the topics have."""
    return sorted(key for topic, key in here.topics.records if topic is RESOURCES)
