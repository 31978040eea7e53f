"""The bridge to one hub: mirrors it, reports the conditions of its clusters, and writes the decisions there.

Consumes: resources, taints, conditions, placements.
Keeps: nothing that is not in the topics or on the hub.
Emits: nothing itself; it sends objects and reports to the gateway.

Leaving takes back what was written to managed clusters. PlacementDecisions and the status of Placements stay: OCM's own
placement controller goes on from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.leaving import Bridged, remove_taints
from moorage.bridges.engine.loop import PATIENCE, BridgeLoop, BridgeOutlets
from moorage.bridges.engine.member import BridgeMember
from moorage.bridges.engine.mirror import MirroredState
from moorage.bridges.engine.observations import ReportKey, TargetObservations
from moorage.bridges.engine.plan import BridgePlan, LeaseResource, Link
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.seen_target import SeenCondition, own_labels
from moorage.bridges.kube.api_error import NOT_FOUND, ApiError
from moorage.bridges.kube.client import MERGE_PATCH, KubeClient
from moorage.bridges.ocm.cluster_acts import AS_BRIDGE, ClusterActs
from moorage.bridges.ocm.decision_acts import DecisionActs
from moorage.bridges.ocm.hub import (
    ADD_ON,
    CLUSTER,
    CLUSTER_LEASE,
    FOLLOWED,
    LEASES,
    MIRRORED,
    PLACEMENT,
    SCORE,
    HubState,
    SeenCluster,
)
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.decide.taints.desired.addons import DEFAULT_GRACE, LABEL_PREFIX
from moorage.decide.taints.desired.managed_taints import BUILT_IN, built_in_taint
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE

_PATIENCE: Final = 10.0
"""Seconds after which placements no longer wait for an object. Many new ones take some seconds; one that the gateway
refuses is never known."""


class HubContent(NamedTuple):
    """The part of an object of the hub that decisions rest on."""

    state: MirroredState
    available: str = ""
    """The status of a cluster's condition of availability. It is reported, and not mirrored."""


class NewPlacements:
    """New placements that wait until the topics contain what has changed on the hub before them.

    A cluster that is just mirrored counts as unreachable until its condition is reported. A placement that was decided
    then would choose others, and keep them.

    Args:
        is_known: returns whether the topics contain an object, by its key and its content. None if it was deleted.
        release: called with the key of a placement that is no longer held.
    """

    def __init__(self, is_known: Callable[[str, HubContent | None], bool], release: Callable[[str], None]) -> None:
        self._is_known = is_known
        self._release = release
        self._contents: dict[str, HubContent] = {}
        self._fresh: dict[str, asyncio.TimerHandle] = {}
        """Objects that have changed and are not known yet, and what ends the waiting for each."""

        self._held: dict[str, set[str]] = {}
        """The objects that each placement waits for."""

    def changed(self, key: str, content: HubContent | None) -> None:
        """Note the content of an object. None if it was deleted."""
        if content == self._contents.get(key):
            return
        if content is None:
            del self._contents[key]
        else:
            self._contents[key] = content
        if (end := self._fresh.pop(key, None)) is not None:
            end.cancel()
        self._fresh[key] = asyncio.get_running_loop().call_later(_PATIENCE, self._settled, key)

    def check(self, key: str) -> None:
        """Let placements go on that have waited for an object, if it is known now."""
        if key in self._fresh and self._is_known(key, self._contents.get(key)):
            self._settled(key)

    def holds(self, key: str) -> bool:
        """Return whether a placement is held now."""
        return key in self._held

    def hold(self, key: str) -> bool:
        """Hold a new placement if there is something to wait for. Return whether it is held."""
        for one in list(self._fresh):
            self.check(one)
        if self._fresh and key not in self._held:
            self._held[key] = set(self._fresh)
        return key in self._held

    def _settled(self, key: str) -> None:
        """Wait no longer for an object."""
        self._fresh.pop(key).cancel()
        for placement, waits_for in list(self._held.items()):
            waits_for.discard(key)
            if not waits_for:
                del self._held[placement]
                self._release(placement)


class HubObservations(TargetObservations[HubState, HubTables]):
    """Reports from what was seen."""

    kind = TargetKind.MANAGED_CLUSTER
    ready = AVAILABLE
    judged = (AVAILABLE,)
    silent = SeenCondition(
        "Unknown", "ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease."
    )  # as in OCM

    @override
    def is_urgent(self, key: str) -> bool:
        return False  # there are no others

    @override
    def is_settled(self, target: SeenCluster) -> bool:
        # Before that, a cluster that was just mirrored counts as one of which nothing is known.
        if not self._has(target):
            return True  # it was refused, so nothing is decided on it
        if self.state.keeps_taints:
            return self._has_its_taints(target)
        tainted = self.tables.taints.get(target.name)
        if tainted is None or tainted.target_uid not in {"", target.uid}:
            return False
        report = self.present(str(ReportKey(self.about, target.name, AVAILABLE)))
        record = self.tables.condition_of(target.name, target.uid, AVAILABLE)
        if report is not None and not _says(record, report, self.source):
            return False
        if tainted.settles_at is not None or tainted.held:
            return True
        # The record of the taints may be older than that of the condition.
        wanted = built_in_taint(record.status.value if record is not None else None)
        present = {one.identity for one in tainted.taints if not one.value} & {one.identity for one in BUILT_IN}
        return not present if wanted is None else wanted.identity in present

    def has_labels(self, cluster: SeenCluster, add_ons: Iterable[str]) -> bool:
        """Return whether the topics have a label for each of a cluster's add-ons."""
        tainted = self.tables.taints.get(cluster.name)
        labels = tainted.labels if tainted is not None else {}
        return all(f"{LABEL_PREFIX}{name}" in labels for name in add_ons)


def _says(record: ConditionChanged | None, report: Report, source: str) -> bool:
    """Return whether a condition has the reported status, or another source has reported a different one since."""
    return record is not None and (record.source != source or record.status.value == report.status)


SOURCE: Final = "bridge/ocm"
"""The source of this bridge's reports."""

LEASE_NAME: Final = "moorage-bridge-ocm"


class HubAct(StrEnum):
    """The acts of a bridge on its hub."""

    PLACEMENTS = "placements"
    """PlacementDecisions, and the status of Placements."""

    TAINTS = "taints"
    LABELS = "labels"
    """Of managed clusters, for their add-ons."""


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How a hub is bridged.

    Attributes:
        link: how it is reached.
    """

    link: Link
    acts: frozenset[HubAct] = field(default_factory=frozenset)

    @property
    def plan(self) -> BridgePlan[HubAct]:
        """The plan of the bridge."""
        return BridgePlan(
            link=self.link,
            source=SOURCE,
            lease=LEASE_NAME,
            acts=self.acts,
            target_acts=(HubAct.TAINTS, HubAct.LABELS),
            held_acts=frozenset({HubAct.PLACEMENTS}),
            target=CLUSTER,
            work=frozenset({PLACEMENT}),
            followed=FOLLOWED,
            mirrored=MIRRORED,
            leases=LeaseResource(
                f"{LEASES}/leases",
                {"fieldSelector": f"metadata.name={CLUSTER_LEASE}"},
                lambda cluster: f"{LEASES}/namespaces/{cluster}/leases/{CLUSTER_LEASE}",
            ),
            grace=DEFAULT_GRACE.total_seconds(),
            patience=PATIENCE,
        )


class HubBridge(BridgeMember[HubAct, HubState]):
    """A bridge to one hub."""

    def __init__(self, settings: Settings, options: HubOptions) -> None:
        tables = HubTables(self._touched)
        state = HubState(self._noticed, tables.is_decided)
        super().__init__(settings, options.plan, state, tables, partial(HubLoop, state, tables))

    @override
    def _grace(self, target: SeenCluster) -> float:
        return target.grace

    @override
    def _state_of(self) -> dict[str, Any]:
        counts = {"clusters": len(self._state.targets), "placements": len(self._state.placements)}
        return {**super()._state_of(), **counts}


class HubLoop(BridgeLoop[HubAct, HubState]):
    """The parts of a bridge to a hub that send and act."""

    _observations: HubObservations

    def __init__(
        self,
        state: HubState,
        tables: HubTables,
        outlets: BridgeOutlets[HubAct],
    ) -> None:
        observations = HubObservations(SOURCE, state, tables, outlets.leases, outlets.objects.has)
        self._new_placements = NewPlacements(self._is_read, self._release)
        clusters = ClusterActs(
            outlets.client,
            tables,
            state.targets.get,
            seen=partial(state.answered, CLUSTER),
            is_settled=observations.is_settled,
            add_ons=state.add_ons,
            undone=outlets.contention(HubAct.TAINTS, "taints", self._target),
            labels=outlets.contention(HubAct.LABELS, "labels of add-ons", self._target),
        )
        decisions = DecisionActs(
            outlets.client,
            tables,
            state,
            contention=outlets.contention(HubAct.PLACEMENTS, "decisions", self._placement),
            tell=outlets.events.tell,
        )
        works = {
            HubAct.PLACEMENTS: decisions.place,
            HubAct.TAINTS: clusters.taint,
            HubAct.LABELS: clusters.label,
        }
        super().__init__(state, outlets, observations=observations, works=works)

    @override
    def seen(self, kind: str, key: str) -> None:
        if self._is_due(key) and not self._has_to_wait(key):
            self.mirror.mark(key)
        if kind == CLUSTER:
            self.target_changed(ResourceKey.parse(key).name)
        elif kind == PLACEMENT:
            self._decisions_count(key)
            self.work_changed(key)
        elif kind == SCORE:
            self._note(key)
        elif kind == ADD_ON:
            cluster = ResourceKey.parse(key).namespace
            self._note(str(ResourceKey(CLUSTER, "", cluster)))
            self._act(cluster, HubAct.LABELS)

    @override
    def touched(self, kind: str, key: str) -> None:
        if kind == CLUSTER:
            self._new_placements.check(str(ResourceKey(CLUSTER, "", key)))
        elif kind == SCORE:
            self._new_placements.check(key)
            return
        else:
            self._decisions_count(key)
        super().touched(kind, key)

    @override
    def target_changed(self, name: str) -> None:
        self._note(str(ResourceKey(CLUSTER, "", name)))
        super().target_changed(name)

    @override
    def work_changed(self, key: str) -> None:
        self._act(key, HubAct.PLACEMENTS)

    @override
    def _work(self) -> Collection[str]:
        return self._state.placements

    def _placement(self, key: str) -> Regarding | None:
        found = self._state.placements.get(key)
        return Regarding.of(found) if found is not None else None

    def _decisions_count(self, placement: str) -> None:
        """Mark the decisions of a placement: whether they count depends on what is decided on it."""
        self.mirror.mark(*self._state.decisions.get(placement, ()))

    @override
    def _is_due(self, key: str) -> bool:
        return super()._is_due(key) and not self._new_placements.holds(key)

    def _release(self, placement: str) -> None:
        self.mirror.mark(placement)

    def _has_to_wait(self, key: str) -> bool:
        """Return whether an object is a new placement that has to wait for clusters."""
        placement = self._state.placements.get(key)
        if placement is None or self._objects.has(key, str(placement["metadata"].get("uid") or "")):
            return False
        return self._new_placements.hold(key)

    def _note(self, key: str) -> None:
        """Note that a cluster or scores may have changed, for which new placements then wait."""
        kind, _, name, _ = ResourceKey.parse(key)
        state, cluster = self._objects.state(key), self._state.targets.get(name) if kind == CLUSTER else None
        available = cluster.conditions.get(AVAILABLE) if cluster is not None else None
        says = available.status if available is not None else ""
        if cluster is not None and self._leases.is_silent(name):
            says = "Unknown"
        self._new_placements.changed(key, HubContent(state, says) if state is not None else None)
        self._new_placements.check(key)

    def _is_read(self, key: str, content: HubContent | None) -> bool:
        """Return whether the topics have an object as it is on the hub, and what follows from a cluster."""
        kind, _, name, _ = ResourceKey.parse(key)
        is_read = self._objects.is_read(key, content.state if content is not None else None)
        return is_read and (kind != CLUSTER or self._is_known(name))

    @override
    def _is_known(self, name: str) -> bool:
        cluster = self._state.targets.get(name)
        return super()._is_known(name) and (
            cluster is None or self._observations.has_labels(cluster, self._state.add_ons(name))
        )


def bridged_hub(link: Link) -> Bridged:
    """Return what to take back when a hub is left."""
    return Bridged(HubOptions(link).plan, clean_cluster)


async def clean_cluster(client: KubeClient, found: dict[str, Any]) -> bool:
    """Remove the taints and labels from a cluster that a bridge has set. Return whether there were any."""
    cluster = SeenCluster.of(found)
    path = ClusterActs.path(cluster.name)
    had = await remove_taints(client, cluster, path=path, read=SeenCluster.of)
    labels = [name for name in sorted(own_labels(found)) if name.startswith(LABEL_PREFIX)]
    if not labels:
        return had
    body = {"metadata": {"uid": cluster.uid, "labels": dict.fromkeys(labels)}}
    try:
        await client.request("PATCH", path, params=AS_BRIDGE, body=body, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != NOT_FOUND:  # the cluster is gone
            raise
    return True
