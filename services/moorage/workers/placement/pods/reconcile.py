"""Compares the pods that an owner demands with those that it has, and reconciles them step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from moorage.decide.scheduling.nodes.workloads import WorkloadController, daemon_index, pod_name, pod_uid
from moorage.workers.placement.engine.outbox import DECISION
from moorage.workers.placement.engine.pod_source import PodSource
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.pods.binder import (
    CONFLICT,
    DELETED,
    TAINT_EVICTION,
    TARGET_GONE,
    Binder,
    Leaving,
    Slot,
)
from moorage.workers.placement.pods.pod_state import PodDecision
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.trusted_events import trusted

_DEPLOYMENT: Final = "Deployment"
"""The kind whose pods are replaced while it is being deleted, because they belong to its ReplicaSets."""


def owner_steps(binder: Binder, work: Work, *, claimed: bool) -> Iterator[None]:
    """Reconcile the pods of an owner with its demand, step by step.

    A step visits one pod or place. Between two steps other records may be read, so a step uses the present state of the
    view. The owner and the decisions on its pods must not change meanwhile, except by these steps.

    Args:
        binder: writes the decisions.
        work: names the owner.
        claimed: whether a policy places it on clusters, so that it creates no pods on nodes.
    """
    state = binder.state
    owner = state.owners.get(work.key) if not claimed else None
    if owner is not None and (owner.makes_no_pods or (owner.controller is not None and owner.finished)):
        owner = None
    if owner is not None and owner.controller is not None and owner.controller.daemon and work.nodes:
        if not owner.error:
            yield from _steps_at_nodes(binder, owner, owner.controller, work)
        return
    binder.outbox.effort += 1
    if work.repair:
        binder.end_orphans(work.key)
    if owner is None:
        yield from _end_all(binder, list(state.pods_of(work.key).values()))
    elif owner.error:
        if owner.controller is None and owner.ref.kind == POD:
            binder.refuse(owner)
    elif owner.controller is not None:
        yield from _controller_steps(binder, owner, owner.controller, work)
    else:
        yield from _bare_steps(binder, owner, work)


def pod_steps(binder: Binder, work: Work, *, claimed: bool) -> Iterator[None]:
    """Check one pod of an owner after a change, with the arguments of `owner_steps`."""
    owner = binder.state.owners.get(work.key)
    last = binder.state.pods_of(work.key).get(work.pod)
    if (
        claimed
        or last is None
        or owner is None
        or owner.error
        or owner.finished
        or owner.makes_no_pods
        or last.owner_uid != owner.uid
        or owner.controller is None
    ):
        yield from owner_steps(binder, work, claimed=claimed)
    elif last.placed and (leaving := binder.leaving(last, work)) is not None:
        _leave(binder, owner, owner.controller, last, leaving)


def _end_all(binder: Binder, last: Iterable[PodDecision]) -> Iterator[None]:
    for one in last:
        binder.end(one)
        yield


def _bare_steps(binder: Binder, owner: PodSource, work: Work) -> Iterator[None]:
    """Reconcile a declared pod. It is placed once; if it has to leave, only a new creation places it again.

    A mirrored pod is on the node that its cluster names. It leaves when its bridge has acknowledged that, or when its
    record is deleted. If its node is deleted, it is decided on as an unbound pod, or waits for the node of its name.
    """
    last = binder.state.pods_of(owner.key).get(owner.key)
    if owner.finished:
        yield from _end_all(binder, [last] if last else [])
        return
    slot = Slot(workload=owner.ref, uid=owner.uid)
    if last is not None and last.uid != owner.uid:
        binder.unbind(last)
        binder.place(owner, slot)
    elif last is None or last.pending:
        binder.place(owner, slot)
    elif last.placed:
        leaving = binder.leaving(last, work)
        if owner.mirrored and not owner.runs_on(last.node) and owner.node_name:
            binder.begin(work)
            _follow_cluster(binder, owner, last)
        elif leaving is None or leaving.waits:
            binder.begin(work)  # the next steps are independent of its eviction
            if work.repair:
                binder.restore_binding(owner, last)
            binder.follow_spec(owner, last)
        elif leaving.reason == CONFLICT or (owner.mirrored and leaving.reason == TARGET_GONE):
            _place_again(binder, owner, last, leaving)
        else:
            binder.evict(owner, last, leaving)
    yield


def _follow_cluster(binder: Binder, owner: PodSource, last: PodDecision) -> None:
    """Move the binding of a mirrored pod to the node that the pod is bound to in its cluster."""
    binder.unbind(last)
    why = f"its cluster has bound it to {owner.node_name}, not to {last.node}"
    binder.place(owner, Slot(workload=owner.ref, uid=last.uid, previous=last.node, why=why))


def _controller_steps(binder: Binder, owner: PodSource, controller: WorkloadController, work: Work) -> Iterator[None]:
    mine = binder.state.pods_of(owner.key)
    yield from _end_all(binder, [one for one in mine.values() if one.owner_uid != owner.uid])
    for one in [one for one in mine.values() if one.placed]:
        binder.outbox.effort += 1
        leaving = binder.leaving(one, work)
        if leaving is not None:
            if leaving.waits and work.repair:
                binder.begin(work)
                binder.restore_binding(owner, one)
                leaving = binder.leaving(one, work) or leaving
            _leave(binder, owner, controller, one, leaving)
        elif work.cause is None:
            if work.repair:
                binder.restore_binding(owner, one)
            binder.follow_labels(owner, one)
        elif owner.changed_labels:
            binder.follow_labels(owner, one)
        yield
    yield from _end_all(binder, [one for one in mine.values() if one.pending and binder.ordered_away(one)])
    binder.begin(work)
    if owner.keeps_pods:
        nodes = _daemon_slots(binder, owner) if controller.daemon else None
        yield from _fill_known(binder, owner, controller, binder.state.pods_of(owner.key).values(), nodes)
        return
    wanted = _daemon_slots(binder, owner) if controller.daemon else dict.fromkeys(range(controller.replicas))
    surplus = [one for one in binder.state.pods_of(owner.key).values() if one.index not in wanted]
    yield from _end_all(binder, [one for one in surplus if not (controller.daemon and binder.waits(one))])
    places = _places(binder, owner, controller, wanted)
    binder.state.stuck.pop(owner.key, None)
    yield from _fill(binder, owner, controller, wanted, places)


def _places(
    binder: Binder, owner: PodSource, controller: WorkloadController, wanted: dict[int, str | None]
) -> dict[int, list[PodDecision]]:
    """Return the present pods by index, without those that wait for their deployer.

    The places that are taken until a deployer has acknowledged are removed from `wanted`.
    """
    places: dict[int, list[PodDecision]] = {}
    for one in binder.state.pods_of(owner.key).values():
        if not binder.waits(one):
            places.setdefault(one.index, []).append(one)
        elif _waits_for_its_place(controller):
            wanted.pop(one.index, None)
    return places


def _steps_at_nodes(binder: Binder, owner: PodSource, controller: WorkloadController, work: Work) -> Iterator[None]:
    """Reconcile the pods of a DaemonSet for a few nodes that have changed. The other nodes are not visited."""
    view, state = binder.view, binder.state
    shape = owner.shape(view.rules, view.rules_version)
    binder.outbox.effort += DECISION
    for name in work.nodes:
        index = daemon_index(name)
        binder.outbox.effort += 1
        for one in state.pods_at(owner.key, index):
            if one.owner_uid != owner.uid:
                binder.end(one)
                yield
            elif one.placed and (leaving := binder.leaving(one, work)) is not None:
                _leave(binder, owner, controller, one, leaving)
                yield
        binder.begin(work)
        there = state.pods_at(owner.key, index)
        if any(binder.waits(one) for one in there):
            continue
        if owner.keeps_pods:
            yield from _fill_known(binder, owner, controller, there, {index: name} if name in view.fleet else {})
            continue
        if _eligible(binder, owner, name) or (
            name in view.fleet
            and owner.node_name in {"", name}
            and any(one.placed and one.node == name for one in there)
            and view.scheduler.may_stay(shape)[view.fleet.row_of(name)]
        ):
            yield from _fill(binder, owner, controller, {index: name}, {index: there})
        else:
            yield from _end_all(binder, there)


def _fill_known(
    binder: Binder,
    owner: PodSource,
    controller: WorkloadController,
    known: Iterable[PodDecision],
    nodes: Mapping[int, str | None] | None,
) -> Iterator[None]:
    """Place those pods of an owner that wait for a node. It is being deleted, so it makes no others and ends none.

    `nodes` has the nodes of a DaemonSet's pods by their index.
    """
    for one in [one for one in known if one.pending and (nodes is None or one.index in nodes)]:
        binder.place(owner, _again(controller, one, nodes[one.index] if nodes is not None else None))
        yield


def _fill(
    binder: Binder,
    owner: PodSource,
    controller: WorkloadController,
    wanted: dict[int, str | None],
    places: dict[int, list[PodDecision]],
) -> Iterator[None]:
    """Provide one pod of the present template for each place. Older pods leave when new ones find room.

    `wanted` has the places to fill by index, each with the only node for it.
    """
    outdated: list[PodDecision] = []
    blocked = False
    for index, only in wanted.items():
        binder.outbox.effort += 1
        if only is not None and only not in binder.view.fleet:
            continue  # the node was deleted since the first step, which is work of its own
        there = places.get(index, [])
        new = [one for one in there if not controller.rolls or one.template_hash == controller.template_hash]
        old = [one for one in there if one not in new]
        if new:
            ready = new[0].placed or binder.place(owner, _again(controller, new[0], only))
            blocked |= not ready
            if ready and old:
                yield from _end_all(binder, old)
        elif any(one.placed for one in old):
            outdated += [one for one in old if one.placed]
        else:
            yield from _end_all(binder, old)
            blocked |= not binder.place(owner, _fresh(binder, owner, controller, index, only))
        yield
    yield from _roll(binder, owner, controller, outdated, wanted, blocked=blocked)


def _roll(
    binder: Binder,
    owner: PodSource,
    controller: WorkloadController,
    outdated: list[PodDecision],
    wanted: dict[int, str | None],
    *,
    blocked: bool,
) -> Iterator[None]:
    """Replace pods of an older template, one at a time, until a new pod finds no room.

    A Deployment's new pod is created in addition to the old one (a surge of one) and may wait. A StatefulSet's or a
    DaemonSet's new pod takes the old one's place, so its fit there is checked first.
    """
    for last in sorted(outdated, key=lambda one: -one.index if controller.keeps_names else one.index):
        if blocked and not controller.daemon:
            return
        slot = _fresh(binder, owner, controller, last.index, wanted[last.index], previous=last.node)
        if controller.keeps_names or controller.daemon:
            if not binder.fits_without(owner, last, slot):
                binder.state.stuck[owner.key] = None
                blocked = True
                yield
                continue
            if controller.keeps_names:
                binder.unbind(last)
            else:
                binder.end(last)
            binder.place(owner, slot)
        elif binder.place(owner, slot):
            binder.end(last)
        else:
            blocked = True
        yield


def _leave(
    binder: Binder, owner: PodSource, controller: WorkloadController, last: PodDecision, leaving: Leaving
) -> None:
    """Replace a pod that has to leave. The new pod takes its place, on another node if necessary.

    Its binding stays until its deployer has acknowledged its end. As in Kubernetes, a Deployment's pod is replaced
    meanwhile. A pod with a name or a node of its own is replaced only after its end.
    """
    if leaving.reason == CONFLICT:
        _place_again(binder, owner, last, leaving)
        return
    if leaving.waits and (_waits_for_its_place(controller) or _is_replaced(binder, last)):
        return
    if owner.keeps_pods and owner.ref.kind != _DEPLOYMENT:
        if not leaving.waits:
            binder.end(last)
        return
    if not leaving.waits and _is_replaced(binder, last):
        binder.end(last)
        return
    only = last.node if controller.daemon else None
    if controller.daemon and (
        leaving.reason not in {TAINT_EVICTION, DELETED} or not _eligible(binder, owner, last.node)
    ):
        binder.end(last)
        return
    if not controller.daemon and last.index >= controller.replicas:
        binder.end(last)  # the controller wants fewer pods, so this one is deleted
        return
    salt = (last.workload, last.uid)
    name = _free_name(binder, owner, controller, last.index, *salt)
    slot = Slot(
        workload=_ref(controller, name),
        uid=pod_uid(controller, name, *salt),
        index=last.index,
        template_hash=controller.template_hash,
        previous=last.node,
        replaces=last.workload,
        why=f"replaces {last.workload}, {leaving.reason}: {leaving.message}",
        only=only,
    )
    if controller.keeps_names:
        binder.unbind(last)
    elif not leaving.waits:
        binder.end(last)
    binder.place(owner, slot)


def _waits_for_its_place(controller: WorkloadController) -> bool:
    """Return whether a pod can only be replaced after its end, because its name or its node is given."""
    return controller.keeps_names or controller.daemon


def _is_replaced(binder: Binder, last: PodDecision) -> bool:
    """Return whether a pod was replaced while it waited for its deployer.

    Its replacement may have been replaced in turn, and is then not named by it, but has the same place.
    """
    task = binder.view.requested(last.workload, last.uid, last.node, last.binding_generation)
    has_waited = task is not None and bool(task.event.deployer)
    return any(
        one.index == last.index
        and one is not last
        and (one.replaces == last.workload or (has_waited and not binder.waits(one)))
        for one in binder.state.pods_of(last.owner).values()
    )


def _place_again(binder: Binder, owner: PodSource, last: PodDecision, leaving: Leaving) -> None:
    """Place a pod again whose binding was withdrawn for an earlier one. It keeps its name: it never ran."""
    binder.unbind(last)
    slot = Slot(
        workload=WorkloadRef.parse(last.workload),
        uid=last.uid,
        index=last.index,
        template_hash=last.template_hash,
        previous=last.node,
        replaces=last.replaces,
        why=f"{leaving.reason}: {leaving.message}{', ' if last.why else ''}{last.why}",
        only=last.node if owner.controller is not None and owner.controller.daemon else None,
    )
    binder.place(owner, slot)


def _again(controller: WorkloadController, last: PodDecision, only: str | None) -> Slot:
    """Return the slot of a waiting pod, to try it again."""
    return Slot(
        workload=WorkloadRef.parse(last.workload),
        uid=last.uid,
        index=last.index,
        template_hash=last.template_hash or controller.template_hash,
        previous=last.previous,
        replaces=last.replaces,
        why=last.why,
        only=only,
    )


def _fresh(
    binder: Binder,
    owner: PodSource,
    controller: WorkloadController,
    index: int,
    only: str | None,
    *,
    previous: str = "",
) -> Slot:
    """Return the slot of a new pod for a place without a pod of the present template."""
    salt = (owner.version, only or "")
    name = _free_name(binder, owner, controller, index, *salt)
    return Slot(
        workload=_ref(controller, name),
        uid=pod_uid(controller, name, *salt),
        index=index,
        template_hash=controller.template_hash,
        previous=previous,
        only=only,
    )


def _free_name(binder: Binder, owner: PodSource, controller: WorkloadController, index: int, *salt: object) -> str:
    """Return a name that no pod of the owner has. If a short hash collides, the next one is used."""
    taken = binder.state.pods_of(owner.key)
    name = pod_name(controller, index, *salt)
    attempt = 0
    while not controller.keeps_names and _ref(controller, name).key in taken:
        attempt += 1
        name = pod_name(controller, index, *salt, attempt)
    return name


def _ref(controller: WorkloadController, name: str) -> WorkloadRef:
    ref = controller.ref
    return trusted(WorkloadRef, kind=POD, namespace=ref.namespace, name=name, cluster=ref.cluster)


def _daemon_slots(binder: Binder, owner: PodSource) -> dict[int, str | None]:
    """Return the places of a DaemonSet: nodes that accept its pods, and nodes with one of its pods that may stay."""
    view, fleet = binder.view, binder.view.fleet
    shape = owner.shape(view.rules, view.rules_version)
    names = {fleet.name_at(int(row)) for row in np.flatnonzero(view.scheduler.eligible(shape))}
    may_stay = view.scheduler.may_stay(shape)
    for last in binder.state.pods_of(owner.key).values():
        if last.placed and last.node in fleet and may_stay[fleet.row_of(last.node)]:
            names.add(last.node)
    return {daemon_index(name): name for name in sorted(names) if owner.node_name in {"", name}}


def _eligible(binder: Binder, owner: PodSource, node: str) -> bool:
    view = binder.view
    shape = owner.shape(view.rules, view.rules_version)
    return (
        owner.node_name in {"", node}
        and node in view.fleet
        and bool(view.scheduler.eligible(shape)[view.fleet.row_of(node)])
    )
