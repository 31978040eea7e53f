"""Bugs of the taint-manager."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.decide.taints.desired import taint_policies, taint_reconciliation
from moorage.decide.taints.desired.from_conditions import DesiredTaints, Holds
from moorage.decide.taints.desired.taint_policies import TaintingPolicy
from moorage.decide.taints.desired.taint_reconciliation import ReconciledTaints
from moorage.workers.taint_manager.policies import PolicyChange
from moorage.workers.taint_manager.service import TaintManager
from moorage_schemas.refs import TargetKind
from moorage_schemas.taint import TaintEffect
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS, ZONE_MEMBERS

module: Any = import_module("moorage.workers.taint_manager.service")  # the package gives the function of that name

_DECIDE = taint_reconciliation.reconcile_taints
_DECIDED = TaintManager._decide


@bug("8 no-record", "No record is written for a declared managed cluster that has no taints.", "managed")
def _() -> list[Change]:
    def decide(current: Any, *given: Any, **named: Any) -> Any:
        found = _DECIDE(current, *given, **named)
        event = found.event
        if current is None and event is not None and event.target.kind is TargetKind.MANAGED_CLUSTER:
            bare = not (event.taints or event.held or event.labels or event.wishes_applied)
            return ReconciledTaints(None, found.due, found.evaluate) if bare else found
        return found

    return [(module, "reconcile_taints", decide)]


@bug("9 by-hand", "A built-in taint that came in by hand stays.")
def _() -> list[Change]:
    return [(taint_reconciliation, "belongs_to_state", lambda *_given: False)]


@bug("no-hold", "Conditions need not hold before they add a taint.")
def _() -> list[Change]:
    rules_of = module.rules_of
    return [(module, "rules_of", lambda settings: replace(rules_of(settings), holds=Holds()))]


@bug("ungranted", "A node gets the taint that evicts without the governor's leave.")
def _() -> list[Change]:
    return [(DesiredTaints, "_granted", lambda _self: True)]


@bug("grant-for-ever", "A leave to evict holds for later incidents, too.")
def _() -> list[Change]:
    return [(DesiredTaints, "_granted", lambda self: self.grant.granted if self.grant is not None else None)]


@bug("withdrawal-ignored", "The taint that evicts stays when the governor takes its leave back.")
def _() -> list[Change]:
    granted = DesiredTaints._granted
    return [(DesiredTaints, "_granted", lambda self: True if self._of_condition(_EVICTS) else granted(self))]


_EVICTS = ("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE.value)


@bug("taint-tombstone-lost", "The taints of a target that is gone stay in their topic.")
def _() -> list[Change]:
    def decided(self: Any, *given: Any, **named: Any) -> Any:
        found = _DECIDED(self, *given, **named)
        return [emit for emit in found if emit.topic is not TAINTS or emit.event is not None]

    return [(TaintManager, "_decide", decided)]


@bug("same-generation", "A new set of taints has the generation of the one before.")
def _() -> list[Change]:
    def decide(current: Any, *given: Any, **named: Any) -> Any:
        found = _DECIDE(current, *given, **named)
        if current is None or found.event is None:
            return found
        return replace(found, event=found.event.model_copy(update={"generation": current.generation}))

    return [(module, "reconcile_taints", decide)]


@bug("wish-lost", "Of several edits of a target's taints that wait only the first is worked in.", "again")
def _() -> list[Change]:
    work = taint_reconciliation._work_out

    def first(want: Any, resource: Any, pending: Any, *given: Any, **named: Any) -> Any:
        return work(want, resource, pending[:1], *given, **named)

    return [(taint_reconciliation, "_work_out", first)]


@bug("member-untold", "A zone is not told that its node is ready again.", "zones")
def _() -> list[Change]:
    sees = module.zone_sees_change

    def blind(before: Any, after: Any) -> bool:
        return bool(sees(before, after)) and not (before is not None and before.incident and not after.incident)

    return [(module, "zone_sees_change", blind)]


@bug("member-tombstone-lost", "A zone is not told that its node is gone.", "zones")
def _() -> list[Change]:
    def decided(self: Any, *given: Any, **named: Any) -> Any:
        found = _DECIDED(self, *given, **named)
        return [emit for emit in found if emit.topic is not ZONE_MEMBERS or emit.event is not None]

    return [(TaintManager, "_decide", decided)]


@bug("heartbeat-eats", "A condition that goes from not ready to unknown is taken for a heartbeat.", "sources")
def _() -> list[Change]:
    def beats(state: Any, target: Any, event: Any) -> bool:
        known = state.conditions.get(target or "", {}).get(event.type)
        return known is not None and (known.status.value == "True") is (event.status.value == "True")

    return [(module, "_only_a_heartbeat", beats)]


@bug("uid-ignored", "A target that was made again keeps the taints of the one before.", "again")
def _() -> list[Change]:
    def decide(current: Any, resource: Any, *given: Any, **named: Any) -> Any:
        if current is not None and current.target_uid != resource.uid:
            current = current.model_copy(update={"target_uid": resource.uid})
        return _DECIDE(current, resource, *given, **named)

    return [(module, "reconcile_taints", decide)]


@bug("conditions-stick", "The end of a condition, or of a target, is not taken in.")
def _() -> list[Change]:
    fold = TaintManager.apply

    def keep(self: Any, state: Any, topic: Any, key: str, event: Any) -> None:
        if event is not None or topic not in {CONDITIONS, RESOURCES}:
            fold(self, state, topic, key, event)

    return [(TaintManager, "apply", keep)]


@bug("policy-kind-unseen", "A change of a TaintPolicy is applied to Karmada clusters only.", "policies")
def _() -> list[Change]:
    kinds = PolicyChange.kinds
    return [(PolicyChange, "kinds", lambda self, rules: kinds(self, rules) & {TargetKind.CLUSTER.value})]


@bug("policy-not-resumed", "After a restart no policy is evaluated.", "policies")
def _() -> list[Change]:
    begin = TaintManager._begin_checking

    def begun(self: Any, state: Any) -> None:
        begin(self, state)
        state.evaluates = False

    return [(TaintManager, "_begin_checking", begun)]


@bug("policy-never-removes", "Policies add taints and never remove them.", "policies")
def _() -> list[Change]:
    acts = taint_policies.acts
    return [(taint_reconciliation, "acts", lambda *given: (act for act in acts(*given) if act.adds))]


@bug("policy-hold-ignored", "The holds of a policy are not kept.", "policies")
def _() -> list[Change]:
    read = TaintingPolicy._of_any_target.__func__  # type: ignore[attr-defined]  # of the class method

    def without(cls: Any, policy: Any) -> Any:
        return replace(read(cls, policy), add_hold=timedelta(), remove_hold=timedelta())

    return [(TaintingPolicy, "_of_any_target", classmethod(without))]


@bug("policy-excludes-nobody", "A policy acts on the targets that it excludes.", "policies")
def _() -> list[Change]:
    selects = TaintingPolicy.selects

    def all_the_same(self: Any, target: Any) -> bool:
        if self.targets is not None:
            self = replace(self, targets=self.targets.model_copy(update={"exclude": None}))
        return selects(self, target)

    return [(TaintingPolicy, "selects", all_the_same)]


@bug("wait-forgotten", "What was held back when the taint-manager stopped is never looked at again.", "holds")
def _() -> list[Change]:
    return [
        (TaintManager, "_check_all", lambda _self, _state, _now: []),
        (TaintManager, "_resume", lambda _self, _state, _target, _now: None),
        (TaintManager, "reconcile", lambda _self, _state, _now: []),
    ]
