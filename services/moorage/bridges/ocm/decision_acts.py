"""Writes decisions on placements to a hub: PlacementDecisions, and the status of Placements.

Source: open-cluster-management.io/ocm/pkg/placement/controllers/scheduling, whose reasons the events have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import structlog

from moorage.apiserver.kinds.status.ocm import placement_decision, placement_status
from moorage.bridges.engine.acts import LOST, Contention, send
from moorage.bridges.engine.cluster_events import NORMAL, Regarding, event
from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import MERGE_PATCH, JsonObject, KubeClient
from moorage.bridges.ocm.hub import DECISION, PLACEMENT, HubState
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.decide.scheduling.ocm.decisions.page_order import steps_between
from moorage.decide.scheduling.ocm.decisions.pages import GROUP_INDEX_LABEL, GROUP_NAME_LABEL
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resources.names import DISABLED_ANNOTATION, PLACEMENT_LABEL

_log = structlog.get_logger(__name__)

_API: Final = "/apis/cluster.open-cluster-management.io/v1beta1"
_LABELS: Final = (PLACEMENT_LABEL, GROUP_NAME_LABEL, GROUP_INDEX_LABEL)
_FIELDS: Final = ("numberOfSelectedClusters", "decisionGroups")


@dataclass(eq=False)
class DecisionActs:
    """The writer of decisions on placements to a hub.

    Attributes:
        contention: decides when to write decisions again that another controller has reverted.
    """

    client: KubeClient
    tables: HubTables
    state: HubState
    _: KW_ONLY
    contention: Contention
    tell: Callable[[JsonObject], None]

    async def place(self, key: str) -> None:
        """Write the decision on a placement, if the hub has another one.

        The pages come first, so that a reader of the status finds those that it names. They are written in an order in
        which a cluster that moves is always on a page. When a placement is deleted, its decisions go with it, as its
        dependents.

        Raises:
            ApiError: the hub refuses.
            OSError: it cannot be reached.
        """
        placement = self.state.placements.get(key)
        if placement is None:
            self.contention.gone(key)
        if placement is None or _is_paused(placement):
            return
        uid = str(placement["metadata"]["uid"])
        pages = self.tables.pages(key, uid)
        if pages is None:
            return
        there = dict(self.state.decisions.get(key, {}))
        wanted = {page.workload.key: page for page in pages}
        content = tuple((name, page.clusters) for name, page in wanted.items())
        differs = content != tuple((name, _clusters(there[name])) for name in wanted if name in there)
        if differs and self.contention.holds(key, content):
            return
        about = Regarding.of(placement)
        present = {name: _clusters(one) for name, one in there.items()}
        for step in steps_between(present, {name: page.clusters for name, page in wanted.items()}):
            await asyncio.gather(
                *(
                    self._delete(about, there[name]) if clusters is None else self._write(about, wanted[name], clusters)
                    for name, clusters in step.items()
                )
            )
        await asyncio.gather(*(self._write(about, page, page.clusters) for page in wanted.values()))  # their labels
        placed = self.tables.placed[key]
        if differs:
            self.contention.written(key, content)
            if placed.scores:
                scores = " ".join(f"{one.target}:{one.total}" for one in placed.scores)
                self.tell(event(about, NORMAL, "ScoreUpdate", scores))
        await self._write_status(placement, placed)

    async def _write(self, about: Regarding, page: WorkloadPlaced, clusters: Collection[str]) -> None:
        """Write one PlacementDecision, with these clusters."""
        wanted = placement_decision(page.model_copy(update={"clusters": tuple(sorted(clusters))}), None)
        there = self.state.decisions.get(page.owner.key, {}).get(page.workload.key)
        metadata = {name: wanted["metadata"][name] for name in ("labels", "ownerReferences")}
        path = f"{_decisions(page.workload.namespace)}/{page.workload.name}"
        is_new = there is None
        if there is None:
            there = await self._create(path, wanted, metadata)
            self.tell(event(about, NORMAL, "DecisionCreate", f"Decision {page.workload.name} was created"))
        if (there.get("status") or {}).get("decisions", []) != wanted["status"]["decisions"]:
            body = {"metadata": {"uid": there["metadata"]["uid"]}, "status": wanted["status"]}
            there = await self._patch(f"{path}/status", body)
            if not is_new and there is not None:
                self.tell(event(about, NORMAL, "DecisionUpdate", f"Decision {page.workload.name} was updated"))
        if there is not None and _metadata(there) != _metadata({"metadata": metadata}):
            body = {"metadata": {"uid": there["metadata"]["uid"], **metadata}}
            await self._patch(path, body)

    async def _create(self, path: str, wanted: JsonObject, metadata: JsonObject) -> JsonObject:
        """Create a PlacementDecision without its status, which is a part of its own."""
        body = {
            "apiVersion": wanted["apiVersion"],
            "kind": DECISION,
            "metadata": {"name": wanted["metadata"]["name"], "namespace": wanted["metadata"]["namespace"], **metadata},
        }
        try:
            found = await self.client.request("POST", path.rpartition("/")[0], body=body)
        except ApiError as error:
            if error.status != CONFLICT:
                ACTS.labels("decision", "failed").inc()
                raise
            found = await self.client.get(path)  # another writer was faster, or the answer was lost
        else:
            ACTS.labels("decision", "created").inc()
        self.state.put(DECISION, found)
        return found

    async def _patch(self, path: str, body: JsonObject) -> JsonObject | None:
        """Patch a PlacementDecision. None if it no longer exists; then the watch reports it."""
        found = await send(self.client, "decision", path, body)
        if found is not None:
            self.state.put(DECISION, found)
        return found

    async def _delete(self, about: Regarding, found: JsonObject) -> None:
        metadata = found["metadata"]
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": metadata["uid"]}}
        path = f"{_decisions(metadata['namespace'])}/{metadata['name']}"
        try:
            await self.client.request("DELETE", path, body=body)
        except ApiError as error:
            if error.status not in LOST:
                ACTS.labels("decision", "failed").inc()
                raise
        else:
            ACTS.labels("decision", "deleted").inc()
            self.tell(event(about, NORMAL, "DecisionDelete", f"Decision {metadata['name']} was deleted"))
        self.state.drop(DECISION, self.state.key_of(DECISION, found))

    async def _write_status(self, placement: JsonObject, placed: WorkloadPlaced) -> None:
        patch = status_patch(placement, placed)
        if patch is None:
            return
        _, namespace, name, _ = ResourceKey.parse(placed.workload.key)
        path = f"{_API}/namespaces/{namespace}/placements/{name}/status"
        try:
            found = await self.client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return
            ACTS.labels("status", "conflict" if error.status == CONFLICT else "failed").inc()
            if error.status == CONFLICT:  # another writer was faster, and the watch may be behind
                await self._refresh(path.removesuffix("/status"))
            raise
        ACTS.labels("status", "done").inc()
        _log.info("bridge.placed", placement=f"{namespace}/{name}", clusters=placed.selected)
        self.state.put(PLACEMENT, found)

    async def _refresh(self, path: str) -> None:
        try:
            self.state.put(PLACEMENT, await self.client.get(path))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise


def status_patch(placement: JsonObject, placed: WorkloadPlaced) -> JsonObject | None:
    """Return the merge patch with which a placement gets its status. None if it has it.

    A list is written whole, so the patch has the version that was read. Conditions of others stay.
    """
    wanted = placement_status(str(placement["metadata"]["uid"]), placed)
    if wanted is None:
        return None
    present: Mapping[str, Any] = placement.get("status") or {}
    conditions = [*wanted["conditions"]]
    types = {one["type"] for one in conditions}
    others = [one for one in present.get("conditions") or () if one.get("type") not in types]
    same = all((present.get(name) or []) == (wanted[name] or []) for name in _FIELDS)
    if same and _conditions(present.get("conditions") or ()) == _conditions([*others, *conditions]):
        return None
    metadata = placement["metadata"]
    return {
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "status": {
            **wanted,
            "numberOfSelectedClusters": wanted["numberOfSelectedClusters"] or None,  # left out, as by OCM
            "conditions": [*others, *conditions],
        },
    }


def _conditions(conditions: Any) -> dict[str, tuple[str, ...]]:
    """Return what has to be equal of conditions. Their times do not count."""
    return {
        str(one.get("type")): tuple(str(one.get(name) or "") for name in ("status", "reason", "message"))
        for one in conditions
    }


def _metadata(found: JsonObject) -> tuple[Any, ...]:
    """Return what has to be equal of the metadata of a PlacementDecision. Other labels and owners stay."""
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    owners = [one.get("uid") for one in metadata.get("ownerReferences") or () if one.get("controller")]
    return {name: labels.get(name) for name in _LABELS}, owners


def _clusters(decision: JsonObject) -> tuple[str, ...]:
    """Return the clusters of a PlacementDecision on the hub."""
    return tuple(str(one.get("clusterName")) for one in (decision.get("status") or {}).get("decisions") or ())


def _is_paused(placement: JsonObject) -> bool:
    metadata = placement["metadata"]
    disabled = (metadata.get("annotations") or {}).get(DISABLED_ANNOTATION) == "true"
    return disabled or bool(metadata.get("deletionTimestamp"))


def _decisions(namespace: str) -> str:
    return f"{_API}/namespaces/{namespace}/placementdecisions"
