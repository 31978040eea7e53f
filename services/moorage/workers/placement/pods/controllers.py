"""What an owner wants against what its pods have: the steps from one to the other, in portions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from moorage.core.scheduling.nodes.workloads import Controller, daemon_index, pod_name, pod_uid
from moorage.workers.placement.pods.reconcile import CONFLICT, TAINT_EVICTION, Desk, Leaving, Slot
from moorage.workers.placement.state import Held, Owner, Work
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.workloads import POD

PORTION: Final = 500
"""Events that are emitted before the rest of an owner waits for the next call."""


def settle_owner(desk: Desk, work: Work) -> None:
    """Bring the pods of an owner to what it wants."""
    state = desk.state
    # What a policy places on clusters makes no pods here.
    owner = state.owners.get(work.owner) if not state.clusters.claims(work.owner) else None
    held = list(state.held.get(work.owner, {}).values())
    if work.repair:
        desk.end_orphans(work.owner)
    if owner is not None and owner.error:
        if owner.controller is None and owner.ref.kind == POD:
            desk.refuse(owner)
        return
    steps = (
        _end_all(desk, held)
        if owner is None
        else _controller_steps(desk, owner, owner.controller, work)
        if owner.controller is not None
        else _bare_steps(desk, owner, work)
    )
    for _ in steps:
        if len(desk.emits) >= PORTION:
            state.work.appendleft(work)
            return


def settle_pod(desk: Desk, work: Work) -> None:
    """Look at one pod of an owner to which something has happened."""
    owner = desk.state.owners.get(work.owner)
    held = desk.state.held.get(work.owner, {}).get(work.workload)
    if (
        desk.state.clusters.claims(work.owner)
        or held is None
        or owner is None
        or owner.error
        or held.owner_uid != owner.uid
        or owner.controller is None
    ):
        settle_owner(desk, work)
    elif held.placed and (leaving := desk.leaving(held, work)) is not None:
        _leave(desk, owner, owner.controller, held, leaving)


def _end_all(desk: Desk, held: Iterable[Held]) -> Iterator[None]:
    for one in held:
        desk.end(one)
        yield


def _bare_steps(desk: Desk, owner: Owner, work: Work) -> Iterator[None]:
    """A declared pod: placed once; when it has to leave it is gone for good, until it is made again."""
    held = desk.state.held.get(owner.key, {}).get(owner.key)
    if owner.finished:
        yield from _end_all(desk, [held] if held else [])
        return
    slot = Slot(workload=owner.ref, uid=owner.uid)
    if held is not None and held.uid != owner.uid:
        desk.unbind(held)
        desk.place(owner, slot)
    elif held is None or held.pending:
        desk.place(owner, slot)
    elif held.placed:
        leaving = desk.leaving(held, work)
        if leaving is None:
            if work.repair:
                desk.restore_binding(owner, held)
            desk.follow_spec(owner, held)
        elif leaving.reason == CONFLICT:
            _place_again(desk, owner, held, leaving)
        else:
            desk.evict(owner, held, leaving)
    yield


def _controller_steps(desk: Desk, owner: Owner, controller: Controller, work: Work) -> Iterator[None]:
    mine = desk.state.held.get(owner.key, {})
    yield from _end_all(desk, [one for one in mine.values() if one.owner_uid != owner.uid])
    for one in [one for one in mine.values() if one.placed]:
        leaving = desk.leaving(one, work)
        if leaving is not None:
            _leave(desk, owner, controller, one, leaving)
            yield
        elif work.cause is None:
            if work.repair:
                desk.restore_binding(owner, one)
            if desk.add_labels(owner, one):
                yield
    desk.begin(work)
    wanted = _daemon_slots(desk, owner) if controller.daemon else dict.fromkeys(range(controller.replicas))
    yield from _end_all(desk, [one for one in desk.state.held.get(owner.key, {}).values() if one.index not in wanted])
    yield from _fill(desk, owner, controller, wanted)


def _fill(desk: Desk, owner: Owner, controller: Controller, wanted: dict[int, str | None]) -> Iterator[None]:
    """One pod of the present template for each place; older ones go as the new ones find room."""
    places: dict[int, list[Held]] = {}
    for one in desk.state.held.get(owner.key, {}).values():
        places.setdefault(one.index, []).append(one)
    outdated: list[Held] = []
    blocked = False
    for index, only in wanted.items():
        there = places.get(index, [])
        new = [one for one in there if not controller.rolls or one.template_hash == controller.template_hash]
        old = [one for one in there if one not in new]
        if new:
            ready = new[0].placed or desk.place(owner, _again(controller, new[0], only))
            blocked |= not ready
            if ready and old:
                yield from _end_all(desk, old)
            elif not new[0].placed:
                yield
        elif any(one.placed for one in old):
            outdated += [one for one in old if one.placed]
        else:
            yield from _end_all(desk, old)
            blocked |= not desk.place(owner, _fresh(desk, owner, controller, index, only))
            yield
    yield from _roll(desk, owner, controller, outdated, wanted, blocked=blocked)


def _roll(
    desk: Desk,
    owner: Owner,
    controller: Controller,
    outdated: list[Held],
    wanted: dict[int, str | None],
    *,
    blocked: bool,
) -> Iterator[None]:
    """Replace pods of an older template, one at a time; the first new one that finds no room stops it.

    A Deployment's new pod comes beside the old one (a surge of one) and may wait; a StatefulSet's and a DaemonSet's
    takes the old one's place, so it is looked first whether it would fit there.
    """
    desk.state.stuck.pop(owner.key, None)
    for held in sorted(outdated, key=lambda one: -one.index if controller.keeps_names else one.index):
        if blocked and not controller.daemon:
            return
        slot = _fresh(desk, owner, controller, held.index, wanted[held.index], previous=held.node)
        if controller.keeps_names or controller.daemon:
            if not desk.fits_without(owner, held, slot):
                desk.state.stuck[owner.key] = None
                blocked = True
                continue
            if controller.keeps_names:
                desk.unbind(held)
            else:
                desk.end(held)
            desk.place(owner, slot)
        elif desk.place(owner, slot):
            desk.end(held)
        else:
            blocked = True
        yield


def _leave(desk: Desk, owner: Owner, controller: Controller, held: Held, leaving: Leaving) -> None:
    """A replica has to leave: another takes its place, on another node if need be."""
    if leaving.reason == CONFLICT:
        _place_again(desk, owner, held, leaving)
        return
    only = held.node if controller.daemon else None
    if controller.daemon and (leaving.reason != TAINT_EVICTION or not _eligible(desk, owner, held.node)):
        desk.end(held)
        return
    if not controller.daemon and held.index >= controller.replicas:
        desk.end(held)
        return
    salt = (held.workload, held.uid)
    name = _free_name(desk, owner, controller, held.index, *salt)
    slot = Slot(
        workload=_ref(controller, name),
        uid=pod_uid(controller, name, *salt),
        index=held.index,
        template_hash=controller.template_hash,
        previous=held.node,
        replaces=held.workload,
        why=f"replaces {held.workload}, {leaving.reason}: {leaving.message}",
        only=only,
    )
    if controller.keeps_names:
        desk.unbind(held)
    else:
        desk.end(held)
    desk.place(owner, slot)


def _place_again(desk: Desk, owner: Owner, held: Held, leaving: Leaving) -> None:
    """Place a pod whose binding lost against an earlier one; it keeps its name, for it never ran."""
    desk.unbind(held)
    slot = Slot(
        workload=WorkloadRef.parse(held.workload),
        uid=held.uid,
        index=held.index,
        template_hash=held.template_hash,
        previous=held.node,
        replaces=held.replaces,
        why=f"{leaving.reason}: {leaving.message}{', ' if held.why else ''}{held.why}",
        only=held.node if owner.controller is not None and owner.controller.daemon else None,
    )
    desk.place(owner, slot)


def _again(controller: Controller, held: Held, only: str | None) -> Slot:
    """A pod that waits, once more."""
    return Slot(
        workload=WorkloadRef.parse(held.workload),
        uid=held.uid,
        index=held.index,
        template_hash=held.template_hash or controller.template_hash,
        previous=held.previous,
        replaces=held.replaces,
        why=held.why,
        only=only,
    )


def _fresh(
    desk: Desk, owner: Owner, controller: Controller, index: int, only: str | None, *, previous: str = ""
) -> Slot:
    """A pod for a place that has none of the present template."""
    salt = (owner.version, only or "")
    name = _free_name(desk, owner, controller, index, *salt)
    return Slot(
        workload=_ref(controller, name),
        uid=pod_uid(controller, name, *salt),
        index=index,
        template_hash=controller.template_hash,
        previous=previous,
        only=only,
    )


def _free_name(desk: Desk, owner: Owner, controller: Controller, index: int, *salt: object) -> str:
    """A name that no pod of the owner has: short hashes do meet, and then the next one is taken."""
    taken = desk.state.held.get(owner.key, {})
    name = pod_name(controller, index, *salt)
    attempt = 0
    while not controller.keeps_names and _ref(controller, name).key in taken:
        attempt += 1
        name = pod_name(controller, index, *salt, attempt)
    return name


def _ref(controller: Controller, name: str) -> WorkloadRef:
    return WorkloadRef(kind="Pod", namespace=controller.ref.namespace, name=name)


def _daemon_slots(desk: Desk, owner: Owner) -> dict[int, str | None]:
    """The places of a DaemonSet: nodes that take its pods, and those that have one which may stay."""
    view, fleet = desk.view, desk.view.fleet
    shape = owner.shape(view.rules, view.rules_version)
    names = {fleet.name_at(int(row)) for row in np.flatnonzero(view.decider.eligible(shape))}
    may_stay = view.decider.may_stay(shape)
    for held in desk.state.held.get(owner.key, {}).values():
        if held.placed and held.node in fleet and may_stay[fleet.row_of(held.node)]:
            names.add(held.node)
    return {daemon_index(name): name for name in sorted(names)}


def _eligible(desk: Desk, owner: Owner, node: str) -> bool:
    view = desk.view
    shape = owner.shape(view.rules, view.rules_version)
    return node in view.fleet and bool(view.decider.eligible(shape)[view.fleet.row_of(node)])
