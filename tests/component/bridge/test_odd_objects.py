"""What a cluster's API server accepts, and Moorage cannot carry: it is skipped, and everything else goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.component.bridge.cluster import node
from tests.component.bridge.rig import rig
from tests.component.bridge.test_batches import running
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.batches import BatchSender
from moorage.bridges.engine.gateway_client import GatewayError
from moorage.bridges.engine.mirror import MirroredObjects
from moorage.bridges.engine.observations import TargetObservations
from moorage.bridges.engine.reports import Reports
from moorage.bridges.engine.seen_state import SeenState, StateSink
from moorage.bridges.engine.silence import Leases
from moorage.bridges.karmada.plane import PlaneState
from moorage.bridges.karmada.plane_bridge import PlaneObservations
from moorage.bridges.karmada.plane_tables import PlaneTables
from moorage.bridges.kubernetes.cluster import ClusterState
from moorage.bridges.kubernetes.cluster_bridge import Observations
from moorage.bridges.kubernetes.cluster_tables import DecidedTables
from moorage.bridges.ocm.hub import HubState
from moorage.bridges.ocm.hub_bridge import HubObservations
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.runtime.process.clock import WallClock
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.keys import ResourceKey
from moorage_schemas.topics import CONDITIONS

_ODD = ("Kernel Deadlock", "Custom.io/Thing", "My_Org/X", "a/b/c", "x" * 317, "", " ", "Ready ", "é")


def _condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, **more}


@virtual_time
async def test_conditions_of_odd_types_are_skipped_with_an_event(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        odd = node("n1", ready="False")
        odd["status"]["conditions"] += [_condition(kind) for kind in _ODD]
        odd["status"]["conditions"] += [_condition("Battery", "Low"), _condition("KernelDeadlock", reason="Hung")]
        here.store.create("Node", odd)
        here.store.create("Node", node("n2"))
        bridge = await here.run()
        for name in ("n1", "n2"):
            here.topics.taint(name)
        await until(lambda: bool(bridge.report()["fleet_known"]), 5)
        await here.quiet()
        said = {
            key: record.event.status.value
            for (_, key), record in here.topics.records.items()
            if isinstance(record.event, ConditionChanged)
        }
        assert said == {"Node/n1|Ready": "False", "Node/n1|KernelDeadlock": "True", "Node/n2|Ready": "True"}
        (told,) = [one for one in here.store.all("Event") if one["reason"] == "MoorageSkipped"]
        assert told["involvedObject"]["name"] == "n1"
        assert "Battery=Low" in told["message"]
        assert "a/b/c=True" in told["message"]
        here.store.change(
            "Node",
            "n1",
            patch={"status": {"conditions": [_condition("Ready"), _condition("a b")]}},
            subresource="status",
        )
        await until(lambda: here.topics.event(CONDITIONS, "Node/n1|Ready").status.value == "True")


@virtual_time
async def test_a_long_message_is_known_once_it_is_reported(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        talkative = node("n1")
        talkative["status"]["conditions"][0] |= {"message": "m" * 3000, "reason": "R" * 2000}
        here.store.create("Node", talkative)
        bridge = await here.run()
        here.topics.taint("n1")
        await until(lambda: bool(bridge.report()["fleet_known"]), 5)
        await here.quiet(130)
        assert len(here.gateway.reported) == 1, "it is not reported again and again"


class _Sender(BatchSender):
    """Sends what it can. Some keys raise an error, as the content of their objects makes it."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        super().__init__("test")
        self.errors = errors
        self.sent: list[str] = []

    async def _send(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key in self.errors:
                raise self.errors[key]
        self.sent += keys


@virtual_time
async def test_a_key_that_cannot_be_sent_stops_no_other() -> None:
    errors: dict[str, Exception] = {"k3": GatewayError(413, "too large"), "k7": ValueError("what is this")}
    async with running(_Sender(errors)) as sender:
        sender.mark(*(f"k{number}" for number in range(10)))
        await until(lambda: sender.idle)
        assert sorted(sender.sent) == [f"k{number}" for number in range(10) if number not in {3, 7}]
        errors.clear()
        await until(lambda: len(sender.sent) == 10, 40)


# Whatever the API server of a cluster accepts.

_texts = st.one_of(st.text(max_size=20), st.sampled_from([*_ODD, "Ready", "Available", "True", "Unknown", "n" * 5000]))
_numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 2**31]))
_any = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_texts, inner, max_size=3)),
    max_leaves=6,
)
"""Of fields whose schema preserves unknown ones, such as those of custom resources."""

_conditions = st.lists(
    st.fixed_dictionaries(
        {"type": _texts},
        optional={"status": _texts, "reason": _texts, "message": _texts, "lastTransitionTime": _texts},
    ),
    max_size=4,
)
_taints = st.lists(
    st.fixed_dictionaries(
        {"key": _texts, "effect": st.sampled_from(["NoSchedule", "NoExecute", "NoSelect", "PreferNoSelect", "X", ""])},
        optional={"value": _texts, "timeAdded": st.sampled_from(["2026-01-01T00:00:00Z", None])},
    ),
    max_size=3,
)
_annotations = st.dictionaries(
    st.one_of(_texts, st.sampled_from(["moorage.io/taints"])),
    st.one_of(_texts, st.sampled_from(["[]", "{}", "[1]", '[{"key": 3}]', "null", '"x"'])),
    max_size=3,
)


def _object(kind: str, spec: dict[str, Any], status: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "annotations": annotations}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}


def _check(state: SeenState[Any], observations: TargetObservations[Any, Any], kind: str, found: dict[str, Any]) -> None:
    """An object is read, and what is sent of it can be sent."""
    StateSink(state, kind).changed(found)
    for key in state.keys:
        assert MirroredObjects("bridge/x", observations.tables, state.object).state(key) is not None
        assert ResourceKey.parse(key).name == "x"
    for name in state.targets:
        for key in observations.of_target(name):
            if (report := observations.present(key)) is not None:
                Reports("bridge/x", None, WallClock(), {}.get, lambda *_: False)._event(report)  # type: ignore[arg-type]  # no gateway


def _ignored(*_: Any) -> None:
    """Take what is seen."""


def _always(*_: Any) -> bool:
    """Return that an object is mirrored."""
    return True


@given(
    kind=st.sampled_from(["Node", "Pod", "Deployment", "Lease"]),
    taints=_taints,
    conditions=_conditions,
    more=_any,
    notes=_annotations,
)
def test_everything_of_a_cluster_is_read(
    kind: str, taints: list[Any], conditions: list[Any], more: Any, notes: dict[str, str]
) -> None:
    state = ClusterState("", _ignored)
    spec = {"taints": taints} if kind == "Node" else {"template": None, "containers": None, "volumes": [], "x": more}
    observations = Observations("bridge/x", state, DecidedTables("", _ignored), Leases(40.0), _always)
    _check(state, observations, kind, _object(kind, spec, {"conditions": conditions}, notes))
    if kind == "Node":
        assert "x" in state.targets


@given(
    kind=st.sampled_from(["ManagedCluster", "ManagedClusterAddOn", "Placement", "AddOnPlacementScore", "Lease"]),
    taints=_taints,
    conditions=_conditions,
    more=_any,
    notes=_annotations,
)
def test_everything_of_a_hub_is_read(
    kind: str, taints: list[Any], conditions: list[Any], more: Any, notes: dict[str, str]
) -> None:
    state = HubState(_ignored, lambda *_: False)
    spec = {"taints": taints, "leaseDurationSeconds": 60} if kind == "ManagedCluster" else {"predicates": more}
    observations = HubObservations("bridge/ocm", state, HubTables(_ignored), Leases(300.0), _always)
    _check(state, observations, kind, _object(kind, spec, {"conditions": conditions, "scores": more}, notes))
    if kind == "ManagedCluster":
        assert "x" in state.targets


@given(
    kind=st.sampled_from(["Cluster", "PropagationPolicy", "ClusterTaintPolicy", "ResourceBinding"]),
    taints=_taints,
    conditions=_conditions,
    more=_any,
    notes=_annotations,
)
def test_everything_of_a_control_plane_is_read(
    kind: str, taints: list[Any], conditions: list[Any], more: Any, notes: dict[str, str]
) -> None:
    state = PlaneState("default-scheduler", _ignored)
    spec = {"taints": taints, "syncMode": "Pull"} if kind == "Cluster" else {"placement": more, "resource": {}}
    observations = PlaneObservations("bridge/karmada", state, PlaneTables(_ignored), Leases(40.0), _always)
    _check(state, observations, kind, _object(kind, spec, {"conditions": conditions}, notes))
    if kind == "Cluster":
        assert "x" in state.targets
