"""Guards that may hold an eviction: pauses, budgets and disruption budgets, with their scopes and limits.

`moorage.decide.disruption.guard_index` finds the guards that apply to an eviction.

The arithmetic of a `PodDisruptionBudget` is that of Kubernetes' disruption controller and eviction handler. The
arithmetic of an `EvictionBudget` is Moorage's own (docs/domain.md, "Budgets").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from moorage.decide.kubernetes.recurring_windows import RecurringWindows
from moorage.decide.kubernetes.selectors import test_of
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.keys import ResourceKey, split_cluster
from moorage_schemas.resource import resource_key
from moorage_schemas.resources.budgets import (
    Amount,
    BudgetPer,
    EvictionBudget,
    EvictionPause,
    EvictionReason,
    PodDisruptionBudget,
    Schedule,
    Scope,
)
from moorage_schemas.resources.meta import LabelSelector

PAUSE: Final = "EvictionPause"
BUDGET: Final = "EvictionBudget"
DISRUPTION: Final = "PodDisruptionBudget"
RATE: Final = "resource-eviction-rate"
"""The name of the limit on evictions from clusters, in `held_by` and as the key of its count."""

_DISRUPTION_PREFIX: Final = f"{DISRUPTION}/"
GUARD_PREFIXES: Final = (f"{PAUSE}/", f"{BUDGET}/", _DISRUPTION_PREFIX)
"""Prefixes of the keys of resources that may hold evictions."""

POD_PREFIX: Final = "Pod/"
"""The key prefix of workloads that a PodDisruptionBudget may select."""

LEAVE_LASTS: Final = timedelta(seconds=2)
"""How long a grant to evict may be kept before it is used, measured by the clock of one process. After that time the
eviction service requests a new grant, and the governor counts the eviction from the use of the grant.

Budgets count an eviction from its grant. If grants could be kept for a long time and then used together, evictions that
a window is meant to spread out would all happen at once. The limit is longer than the second within which the
taint-manager commits the offsets of records without output. So ordinary records about a target do not make a grant
expire.
"""

LabelTest = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Subject:
    """The workload and target of an eviction."""

    workload: str
    """The workload's key, `Kind/namespace/name`."""

    owner: str
    """The key of the workload's owner, or the workload's own key if it has no owner."""

    target: str
    """The target's key, `Kind/name`."""

    zone: str
    """The target's zone, `region/zone`."""

    labels: Mapping[str, str]
    reason: str = ""
    """An `EvictionReason`. Empty if it is not known; then no guard with reasons applies."""

    @property
    def namespace(self) -> str:
        """The workload's namespace."""
        return ResourceKey.parse(self.workload).namespace


def own_namespace(key: str) -> str:
    """Return the namespace of an object or workload, by its key. In a cluster, it follows the cluster and a colon.

    So namespaces of the same name in two clusters are two.
    """
    _, namespace, _, cluster = ResourceKey.parse(key)
    return f"{cluster}:{namespace}" if cluster else namespace


def is_pod(key: str) -> bool:
    """Return whether the key of a workload, or of something about it, is that of a pod."""
    return key.startswith(POD_PREFIX) or split_cluster(key)[1].startswith(POD_PREFIX)


def is_guard(key: str) -> bool:
    """Return whether a resource may hold evictions, by its key. Those of the home fleet also hold in clusters.

    A cluster itself has only disruption budgets.
    """
    if key.startswith(GUARD_PREFIXES):
        return True
    cluster, rest = split_cluster(key)
    return bool(cluster) and rest.startswith(_DISRUPTION_PREFIX)


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """A number, or a percentage of a base."""

    value: int
    percent: bool = False

    @classmethod
    def of(cls, amount: Amount, field: str) -> BudgetShare:
        """Parse an amount of a resource.

        Raises:
            ValueError: the amount is neither a non-negative number nor a percentage such as `10%`.
        """
        if isinstance(amount, int) and amount >= 0:
            return cls(amount)
        digits = amount[:-1] if isinstance(amount, str) and amount.endswith("%") else ""
        if digits.isascii() and digits.isdigit():
            return cls(int(digits), percent=True)
        raise ValueError(f"{field}: Invalid value: {amount!r}: must be a number of at least 0, or a percentage")

    def limit(self, base: int) -> int:
        """Return the absolute number for a given base, rounded up."""
        return -(-self.value * base // 100) if self.percent else self.value


class ScopeTest:
    """Tests whether an eviction is in a scope. Every part that is set must match."""

    __slots__ = ("_reasons", "_selects", "_targets", "_zones", "namespaces", "workloads")

    def __init__(self, scope: Scope, reasons: list[EvictionReason] | None = None) -> None:
        self.namespaces = _names(scope.namespaces)
        self.workloads = _names(scope.workloads)
        self._zones = _names(scope.zones)
        self._targets = _names(scope.targets)
        self._selects = label_test(scope.selector) if scope.selector is not None else None
        self._reasons = None if reasons is None else frozenset(reason.value for reason in reasons)

    def __call__(self, subject: Subject) -> bool:
        """Return whether a subject is in the scope."""
        return (
            (self.workloads is None or subject.workload in self.workloads or subject.owner in self.workloads)
            and (self.namespaces is None or subject.namespace in self.namespaces)
            and (self._zones is None or subject.zone in self._zones)
            and (self._targets is None or subject.target in self._targets)
            and (self._selects is None or self._selects(subject.labels))
        )

    def applies(self, subject: Subject) -> bool:
        """Return whether a subject is in the scope, and its eviction has one of the reasons."""
        return (self._reasons is None or subject.reason in self._reasons) and self(subject)


@dataclass(frozen=True, slots=True)
class Pause:
    """An `EvictionPause`."""

    key: str
    name: str
    """The name in `held_by`, such as `EvictionPause/all`."""

    test: ScopeTest
    reason: str = ""
    windows: RecurringWindows | None = None
    """When it holds evictions. None means always."""


@dataclass(frozen=True, slots=True)
class Budget:
    """An `EvictionBudget`."""

    key: str
    name: str
    test: ScopeTest
    per: BudgetPer
    concurrent: BudgetShare | None
    in_window: BudgetShare | None
    window: int
    """Seconds."""

    patience: int | None
    """Seconds. None means no end."""

    windows: RecurringWindows | None = None
    """When it holds evictions. None means always."""

    @property
    def percent(self) -> bool:
        """Whether the budget needs the number of bound workloads."""
        return any(share is not None and share.percent for share in (self.concurrent, self.in_window))

    def part(self, subject: Subject) -> str:
        """Return the part that an eviction counts for: its zone, namespace or owner; empty for the whole fleet."""
        match self.per:
            case BudgetPer.ZONE:
                return subject.zone
            case BudgetPer.NAMESPACE:
                return own_namespace(subject.workload)
            case BudgetPer.WORKLOAD:
                return subject.owner
            case BudgetPer.FLEET:
                return ""


@dataclass(frozen=True, slots=True)
class Disruption:
    """A `PodDisruptionBudget`."""

    key: str
    name: str
    namespace: str
    """The namespace of its pods, as in `own_namespace`."""

    selects: LabelTest
    min_available: BudgetShare | None
    max_unavailable: BudgetShare | None
    always_allow_unhealthy: bool = False
    demands: tuple[str, str] | None = None
    """A label with its value that every selected pod has. None if there is no such label."""

    stated_scale: int | None = None
    """The number of pods that there should be, as the cluster's own disruption controller has counted. It also reads
    the scale of owners that are not mirrored. None for a budget that is declared here, or not counted there yet."""


@dataclass(frozen=True, slots=True)
class Disruptions:
    """The counts of a PodDisruptionBudget, and the evictions that it allows now."""

    expected: int
    """The number of pods that there should be."""

    desired: int
    """The number of pods that must be healthy."""

    healthy: int
    scaled: bool = True
    """False if the expected number depends on an owner that does not state how many pods it wants. Then nothing is
    allowed."""

    @property
    def allowed(self) -> int:
        """The number of healthy pods that may be evicted."""
        if not self.scaled or self.expected <= 0:
            return 0
        return max(0, self.healthy - self.desired)

    def lets_go_unhealthy(self, *, always: bool) -> bool:
        """Return whether an unhealthy pod may be evicted.

        Args:
            always: whether the budget's `unhealthyPodEvictionPolicy` is `AlwaysAllow`.
        """
        whole = self.scaled and self.desired > 0 and self.healthy >= self.desired
        return always or whole or self.allowed > 0

    def lets_go(self, *, unhealthy: bool, always: bool) -> bool:
        """Return whether a pod may be evicted. `always` is that of `lets_go_unhealthy`."""
        return self.lets_go_unhealthy(always=always) if unhealthy else self.allowed > 0

    def refusal(self, name: str) -> str:
        """Return why a pod may not be evicted, for a budget of this name."""
        if self.scaled and self.healthy <= self.desired:
            return f"The disruption budget {name} needs {self.desired} healthy pods and has {self.healthy} currently"
        why = "" if self.scaled else f" because it failed sync: {NOT_SCALED}"
        return f"The disruption budget {name} does not allow evicting pods currently{why}"


NOT_SCALED: Final = "what makes its pods does not say how many it wants"
"""Why a disruption budget cannot be computed."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NOT_STARTED: Final = "Pending"


def is_undisrupted(phase: str, *, is_marked: bool, bound: bool, mirrored: bool) -> bool:
    """Return whether a pod may always be evicted, because its eviction disrupts nothing.

    Source: `canIgnorePDB` in k8s.io/kubernetes/pkg/registry/core/pod/storage. A pod that is declared here is Pending
    until something is reported of it, and counts as healthy in the meantime.

    Args:
        phase: the phase of the pod.
        is_marked: whether it is being deleted.
        bound: whether it has a node.
        mirrored: whether its phase is that of a real cluster.
    """
    return is_marked or not bound or phase in _ENDED or (mirrored and phase == _NOT_STARTED)


def disruptions(guard: Disruption, *, pods: int, healthy: int, scale: int | None) -> Disruptions:
    """Compute the counts of a PodDisruptionBudget as policy/v1 does.

    Args:
        guard: the budget.
        pods: the number of pods that it selects.
        healthy: the number of those that are healthy and not about to be evicted.
        scale: the number of pods that the owners of those pods want in total. Pods without an owner do not count. None
            if an owner does not state a number. Then the budget's `stated_scale` counts.
    """
    if scale is None:
        scale = guard.stated_scale
    if guard.max_unavailable is not None:
        if scale is None:
            return Disruptions(0, 0, healthy, scaled=False)
        return Disruptions(scale, max(0, scale - guard.max_unavailable.limit(scale)), healthy)
    if guard.min_available is None:
        return Disruptions(0, 0, healthy)
    if not guard.min_available.percent:
        return Disruptions(pods, guard.min_available.value, healthy)
    if scale is None:
        return Disruptions(0, 0, healthy, scaled=False)
    return Disruptions(scale, guard.min_available.limit(scale), healthy)


def pause_of(obj: Mapping[str, Any]) -> Pause:
    """Return the pause that an object declares. Raises ValueError if its schedule is invalid."""
    pause = EvictionPause.model_validate(obj)
    name, spec = pause.metadata.name, pause.spec
    return Pause(
        key=resource_key(PAUSE, "", name),
        name=f"{PAUSE}/{name}",
        test=ScopeTest(spec.scope, spec.reasons),
        reason=spec.reason,
        windows=_windows(spec.schedule),
    )


def budget_of(obj: Mapping[str, Any]) -> Budget:
    """Return the budget that an object declares. Raises ValueError if an amount or its schedule is invalid."""
    budget = EvictionBudget.model_validate(obj)
    name, spec = budget.metadata.name, budget.spec
    return Budget(
        key=resource_key(BUDGET, "", name),
        name=f"{BUDGET}/{name}",
        test=ScopeTest(spec.scope, spec.reasons),
        per=spec.per,
        concurrent=_share(spec.max_concurrent, "spec.maxConcurrent"),
        in_window=_share(spec.max_in_window, "spec.maxInWindow"),
        window=spec.window_seconds,
        patience=spec.patience_seconds,
        windows=_windows(spec.schedule),
    )


def _windows(schedule: Schedule | None) -> RecurringWindows | None:
    return None if schedule is None else RecurringWindows(schedule)


def disruption_of(obj: Mapping[str, Any], cluster: str = "") -> Disruption:
    """Return the disruption budget that an object declares in a cluster, or in the home fleet.

    Raises:
        ValueError: an amount is neither a number nor a percentage.
    """
    found = PodDisruptionBudget.model_validate(obj)
    spec, namespace, name = found.spec, found.metadata.namespace, found.metadata.name
    return Disruption(
        key=(key := resource_key(DISRUPTION, namespace, name, cluster)),
        name=key,
        namespace=own_namespace(key),
        selects=label_test(spec.selector),
        min_available=_share(spec.min_available, "spec.minAvailable"),
        max_unavailable=_share(spec.max_unavailable, "spec.maxUnavailable"),
        demands=next(iter(((spec.selector and spec.selector.match_labels) or {}).items()), None),
        always_allow_unhealthy=(spec.model_extra or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        stated_scale=_stated_scale(obj),
    )


def _stated_scale(obj: Mapping[str, Any]) -> int | None:
    """Return `status.expectedPods` of a mirrored budget, which a bridge mirrors only while it is a sum of scales."""
    stated = (obj.get("status") or {}).get("expectedPods")
    return stated if isinstance(stated, int) else None


def label_test(selector: LabelSelector | None) -> LabelTest:
    """Compile a label selector for frequent use. An absent selector selects nothing, an empty one everything."""
    if selector is None:
        return lambda _: False
    equal = tuple((selector.match_labels or {}).items())
    tests = tuple((one.key, test_of(one, node=False)) for one in selector.match_expressions or ())
    if not tests:
        return lambda labels: all(labels.get(key) == value for key, value in equal)
    return lambda labels: (
        all(labels.get(key) == value for key, value in equal) and all(test(labels.get(key)) for key, test in tests)
    )


def _names(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _share(amount: Amount | None, field: str) -> BudgetShare | None:
    return None if amount is None else BudgetShare.of(amount, field)


def is_healthy(status: ConditionStatus | None, *, mirrored: bool, node_ready: bool = True) -> bool:
    """Return whether a bound pod counts as healthy.

    None does on a node that is not ready. Source: `MarkPodsNotReady` in
    k8s.io/kubernetes/pkg/controller/nodelifecycle, which sets such pods to not ready.

    A pod that is declared here does unless it was reported otherwise, since not every deployer reports. A mirrored one
    does only if it was reported so, because Kubernetes counts pods that are ready, and its bridge reports each that is.

    Args:
        status: the last status reported since it was bound; of a mirrored one, by its bridge. None for nothing.
        mirrored: whether it is mirrored from a real cluster.
        node_ready: whether its node is ready, as far as anything is known of it.
    """
    if not node_ready:
        return False
    return status is ConditionStatus.TRUE if mirrored else status is not ConditionStatus.FALSE
