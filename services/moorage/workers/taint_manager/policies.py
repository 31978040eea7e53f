"""The taint-manager's view of all policies, and the targets that a changed policy concerns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from typing_extensions import override

from moorage.decide.taints.desired.taint_policies import KINDS, PolicyList, TaintingPolicy, TargetFacts
from moorage.decide.taints.desired.taint_reconciliation import TaintRules
from moorage.runtime.service import Input
from moorage.runtime.settings.moorage_configuration import Configuration, ConfiguredView
from moorage.workers.taint_manager.maintained_targets import MaintainedTargets
from moorage_schemas.envelope import Meta
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONFIGURATION, MAINTENANCES, RESOURCES, Topic

_PREFIXES = tuple(f"{kind}/" for kind in KINDS)
_NONE = PolicyList()


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One change of a policy: all policies after the change, and the policy whose targets are checked."""

    policies: PolicyList
    meta: Meta
    touched: tuple[TaintingPolicy, ...] = ()
    """The policy before and after the change; empty when its content is the same."""

    evaluate: bool = True
    """Whether policies are evaluated. If not, as after a deletion, taints only stop waiting because of the policy."""

    def kinds(self, rules: TaintRules) -> frozenset[str]:
        """Return the kinds of targets that are checked. Empty for a policy that is switched off."""
        return frozenset(policy.target_kind for policy in self.touched if rules.let_act(policy))

    def touches(self, target: TargetFacts, rules: TaintRules) -> bool:
        """Return whether a target is checked: the policy selects it, or did before."""
        return any(policy.selects(target) and rules.let_act(policy) for policy in self.touched)


@dataclass(slots=True, eq=False)
class Cursor:
    """The number of changes that one partition has processed, and the policies at that point."""

    seen: int
    policies: PolicyList


@dataclass(slots=True)
class _Known:
    policy: TaintingPolicy
    uid: str
    version: int


@dataclass(slots=True)
class PolicyView(ConfiguredView):
    """All policies, the configuration, and the changes of policies that some partition has not processed yet.

    Each partition processes the changes one by one, with the policies as they were after each. So it makes no
    difference how many changes arrive at once.
    """

    configuration: Configuration | None = None
    """The settings to decide by; None for a view that does not follow them."""

    maintained: MaintainedTargets = field(default_factory=MaintainedTargets)
    _known: dict[str, _Known] = field(default_factory=dict)
    _policies: PolicyList = _NONE
    _changes: list[PolicyChange] = field(default_factory=list)
    _begin: int = 0
    """The number of the first of `_changes`."""

    _cursors: list[Cursor] = field(default_factory=list)
    _fresh: bool = False

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        return (
            ConfiguredView.wants(self, topic, key)
            or topic is MAINTENANCES
            or (topic is RESOURCES and key.startswith(_PREFIXES))
        )

    @override
    def apply(self, record: Input) -> None:
        # the taints that a deleted policy has added stay
        if record.topic is CONFIGURATION:
            ConfiguredView.apply(self, record)
            return
        if record.topic is MAINTENANCES:
            self.maintained.apply(record)
            self._fresh = True
            return
        known, deleted = self._known.get(record.key), record.event is None
        touched: tuple[TaintingPolicy, ...] = ()
        if isinstance(record.event, ResourceDeclared):
            event = record.event
            if known is not None and known.uid == event.uid and known.version >= event.version:
                return
            policy = TaintingPolicy.of(event.object)
            again = known is not None and known.uid == event.uid
            if known is None or not again:
                touched = (policy,)
            elif known.policy != policy:
                touched = (known.policy, policy)
            self._known[record.key] = _Known(policy, event.uid, event.version)
        elif known is None:
            return
        else:
            touched = (known.policy,)
            del self._known[record.key]
        self._policies = PolicyList.of(entry.policy for entry in self._known.values())
        if self._cursors:
            self._changes.append(PolicyChange(self._policies, record.meta, touched, evaluate=not deleted))
            self._fresh = True

    @override
    def changed(self) -> Iterable[int] | None:
        # every partition has targets
        fresh, self._fresh = self._fresh, False
        return None if fresh else ConfiguredView.changed(self)

    def enter(self) -> Cursor:
        """Start to follow the changes from the present policies on."""
        cursor = Cursor(self._begin + len(self._changes), self._policies)
        self._cursors.append(cursor)
        return cursor

    def leave(self, cursor: Cursor) -> None:
        """Stop following the changes."""
        if cursor in self._cursors:
            self._cursors.remove(cursor)
        self._forget()

    def next_unseen(self, cursor: Cursor) -> PolicyChange | None:
        """Return the next change that a partition has not processed, and count it as processed; None for none."""
        place = cursor.seen - self._begin
        if place >= len(self._changes):
            return None
        found = self._changes[place]
        cursor.seen += 1
        self._forget()
        return found

    def catch_up(self, cursor: Cursor) -> None:
        """Use the present policies, and skip the changes up to them."""
        cursor.seen = self._begin + len(self._changes)
        cursor.policies = self._policies
        self._forget()

    def _forget(self) -> None:
        """Drop the changes that all partitions have processed."""
        end = self._begin + len(self._changes)
        oldest = min((cursor.seen for cursor in self._cursors), default=end)
        del self._changes[: oldest - self._begin]
        self._begin = oldest
