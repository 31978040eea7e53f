"""The complete list of deliberate deviations from upstream's code.

`moorage eval --as upstream` answers without these, `--as documented` with them. A differential test may exclude a case
only by naming one of them. `docs/deviations.md` shows this list, and a test compares the two.
"""

from __future__ import annotations

from enum import Enum

from moorage.conformance import deviations_ocm as ocm
from moorage.conformance import deviations_patching as patching
from moorage.conformance.deviation_entry import DeviationEntry


class Deviation(Enum):
    """A named deviation. `slug` is its id. `operations` are the `eval` operations whose answers it can change."""

    EMPTY_KEY_NEEDS_EXISTS = DeviationEntry(
        "empty-key-needs-exists",
        "A toleration without a key matches only with the operator `Exists`.",
        "An empty key with `Equal`, or with no operator, matches every taint of the same value.",
        "The documents allow an empty key only with `Exists`. A mistake in a manifest must not tolerate everything.",
        ("tolerates", "filter", "evict", "karmada_evict", "karmada_filter"),
    )
    EXISTS_TAKES_NO_VALUE = DeviationEntry(
        "exists-takes-no-value",
        "A toleration with `Exists` and a value matches nothing.",
        "The value is ignored, and the toleration matches.",
        "The documents require an empty value. A user who wrote one meant `Equal`, and would tolerate more than "
        "intended.",
        ("tolerates", "filter", "evict", "karmada_evict", "karmada_filter"),
    )
    COMPARISON_OPERATORS_ON = DeviationEntry(
        "comparison-operators-on",
        "`Gt` and `Lt` are supported unless `comparisonOperators` is false in the request.",
        "They depend on an alpha feature gate that is off by default. In the eviction controller it is always off.",
        "They are part of Moorage's matching, and filter and eviction must agree on what is tolerated.",
        ("tolerates", "filter", "evict", "validate", "karmada_evict", "karmada_filter", "ocm_schedule"),
    )
    DEADLINE_FROM_TIME_ADDED = DeviationEntry(
        "deadline-from-time-added",
        "A tolerated time runs from the taint's `timeAdded`. If there are several taints, the earliest end counts.",
        "It starts when the controller sees the taint, and the shortest of the tolerated times applies.",
        "A restart of a controller must not extend it. A deadline is absolute and the same for all readers.",
        ("evict",),
    )
    DEADLINE_FOLLOWS_TOLERATIONS = DeviationEntry(
        "deadline-follows-tolerations",
        "A changed `tolerationSeconds` moves the deadline of a pod that is scheduled to leave, later or earlier.",
        "Kubernetes keeps the deadline that it set first, unless the pod may now stay forever or must leave at once.",
        "The tolerations that are in force decide. The same state has the same deadline, however it was reached.",
        (),
    )
    SECONDS_OF_FIRST_MATCH = DeviationEntry(
        "seconds-of-first-match",
        "On clusters too, the tolerated time of a taint is that of the first toleration that matches it, and of no "
        "other.",
        "In Karmada, the seconds of a toleration that is used for one taint count for every taint that it matches.",
        "Nodes and clusters have the same rule. If an earlier toleration allows a longer time, the user intended that.",
        ("karmada_evict",),
    )
    NO_TIME_IS_AT_ONCE = DeviationEntry(
        "no-time-is-at-once",
        "On clusters too, a toleration of zero or fewer seconds means at once, whatever `timeAdded` is.",
        "Karmada adds the seconds to `timeAdded`, which may be in the future.",
        "The documents say so. A clock that is ahead must not keep work where it is not tolerated.",
        ("karmada_evict",),
    )
    MISSING_TIME_ADDED_IS_NOW = DeviationEntry(
        "missing-time-added-is-now",
        "If a cluster's taint has no `timeAdded`, the tolerated time begins now.",
        "Karmada skips such a taint, so it is tolerated forever.",
        "A limited time must end. Taints that Moorage stores always have `timeAdded`.",
        ("karmada_evict",),
    )
    NOTHING_CHANGED_NOTHING_WRITTEN = DeviationEntry(
        "nothing-changed-nothing-written",
        "A policy that adds and removes the same taint on a cluster without taints changes nothing and reports "
        "nothing.",
        "Karmada writes the cluster and an event, because an empty list differs from an absent one.",
        "A write without a change would wake all watchers.",
        ("ctp",),
    )
    KEPT_THROUGH_ONE_UPDATE = DeviationEntry(
        "kept-through-one-update",
        "A taint that one evaluation of policies removes and adds again with the same value counts as never removed.",
        "Karmada gives it a new `timeAdded`, so the tolerated time starts again, and writes the cluster.",
        "An evaluation that changes nothing, such as the one after a restart, must not postpone deadlines.",
        ("ctp",),
    )
    OLDER_ZONE_FIELD = DeviationEntry(
        "older-zone-field",
        "A cluster that has only the older field `spec.zone` is in that zone.",
        "Karmada's webhook copies it into `spec.zones`. The code that reads clusters ignores the older field.",
        "`eval` runs without a webhook, and the meaning is clear.",
        ("ctp",),
    )
    SILENT_CLUSTER_IS_READY = DeviationEntry(
        "silent-cluster-is-ready",
        "A cluster whose `Ready` condition was never reported has no system taint.",
        "Karmada taints it `cluster.karmada.io/not-ready` until its own agent reports.",
        "A cluster may be declared before a probe runs there. Nodes are treated in the same way.",
        (),
    )
    SILENT_NODE_IS_READY = DeviationEntry(
        "silent-node-is-ready",
        "A node whose `Ready` condition was never reported counts as ready in its zone.",
        "A node without the condition counts as not ready.",
        "Nodes may be declared before a probe runs there. A fleet without probes must not stop every zone.",
        (),
    )
    BUILT_IN_IS_THE_STATES = DeviationEntry(
        "built-in-is-the-states",
        "A built-in taint is present when the target's state requires it and, if it evicts, when its zone allows it. "
        "Edits by people or policies do not change it, its value or its `timeAdded`.",
        "A controller removes or restores it in its next round. It removes `NoExecute` from a node only when `Ready` "
        "is known and True, replaces one that a person added without regard to the zone's rate, and keeps its value.",
        "The result is the same, without the delay. An old manifest must not evict from a healthy node, or from a zone "
        "that is held.",
        ("ctp",),
    )
    EVERY_NODE_COUNTS_IN_ITS_ZONE = DeviationEntry(
        "every-node-counts-in-its-zone",
        "A node with the label `node.kubernetes.io/exclude-disruption` counts in its zone like any other.",
        "Such a node is left out when the state of a zone is computed.",
        "A zone's record shows all of its nodes. Moorage has no use for nodes that are not part of the fleet.",
        (),
    )
    ZONE_RATE_FOLLOWS_SIZE = DeviationEntry(
        "zone-rate-follows-size",
        "A zone's rate follows its number of nodes, also while its state stays the same. A temporary rate of 0 empties "
        "the token only if a node has to wait because of it.",
        "The rate is set when the state changes, from the size at that moment, and an emptied limiter stays empty.",
        "What is allowed depends on the present state, not on the order of the reports.",
        (),
    )
    BUDGETS_HOLD_TAINT_EVICTIONS = DeviationEntry(
        "budgets-hold-taint-evictions",
        "A PodDisruptionBudget holds an eviction by a taint, for at most `disruption_budget_patience`.",
        "Kubernetes' taint eviction deletes pods without regard to budgets.",
        "A user who declares a budget expects it to apply to taints too. The limit ensures that pods leave a dead "
        "node.",
        (),
    )
    NOTHING_LEAVES_WITHOUT_REPLACEMENT = DeviationEntry(
        "nothing-leaves-without-replacement",
        "Work leaves a cluster only when its placement is complete without that cluster, unless the user requests "
        "otherwise.",
        "In Karmada it leaves when the grace period ends, or at once with the purge mode Directly.",
        "An outage of all clusters must not remove the last copy.",
        (),
    )
    TASK_ENDS_WITH_THE_DECISION = DeviationEntry(
        "task-ends-with-the-decision",
        "The graceful eviction task of a ResourceBinding that a bridge has written ends when the decision lets it: "
        "when the replacement is healthy, or when the grace period is over and there is a replacement. One that purges "
        "directly ends at once.",
        "Karmada ends it when the grace period is over, whether there is a replacement or not. One that purges "
        "directly stays until then, or until the replacement is healthy.",
        "An outage of all clusters must not remove the last copy. What keeps a scheduler from going back to the "
        "cluster is its taint.",
        (),
    )
    HEARTBEATS_BY_SOURCE = DeviationEntry(
        "heartbeats-by-source",
        "When a source falls silent, every condition that it reported last becomes Unknown.",
        "Kubernetes sets four conditions of a node to Unknown, and Karmada only `Ready`, whichever source reported "
        "them.",
        "Any source may report any condition. A condition that is no longer confirmed is unknown, and the others are "
        "not.",
        (),
    )
    FOUR_FILTERS_FOR_PODS = DeviationEntry(
        "four-filters-for-pods",
        "A pod is placed by its node affinity, requests, tolerations and `spec.unschedulable` alone.",
        "Host ports, affinity to other pods, spread constraints that must hold and volumes rule nodes out, too.",
        "Each of them makes a decision depend on all other pods. A pod of a real cluster that has one is not bound and "
        "says which: its `schedulerName` leaves it to Kubernetes' scheduler.",
        (),
    )
    NO_MAXIMUM_MEANS_NO_LIMIT = DeviationEntry(
        "no-maximum-means-no-limit",
        "A spread constraint without `maxGroups`, or with 0, sets no limit.",
        "Karmada's scheduler chooses no cluster.",
        "According to the field's description, there is no limit unless one is given.",
        (),
    )
    SPREAD_BY_FIELD_ONLY = DeviationEntry(
        "spread-by-field-only",
        "A policy with `spreadByLabel` is refused.",
        "Karmada accepts it, but its scheduler does not support it.",
        "A request that cannot be fulfilled should be refused at once.",
        (),
    )
    SCALE_DOWN_AMONG_THE_CHOSEN = DeviationEntry(
        "scale-down-among-the-chosen",
        "Scaling down leaves replicas only on the clusters that are chosen now.",
        "Karmada may leave them on clusters that its selection has just ruled out.",
        "A cluster that is ruled out keeps no replicas.",
        (),
    )
    UNKNOWN_ROOM_IS_ENOUGH = DeviationEntry(
        "unknown-room-is-enough",
        "A cluster without a `resourceSummary`, or with one that does not name a resource, has enough of it.",
        "For Karmada it has nothing.",
        "Nodes are treated in the same way. A cluster that declares no resources does not limit them.",
        (),
    )
    AFFINITY_GROUPS_FROM_THE_FIRST = DeviationEntry(
        "affinity-groups-from-the-first",
        "Whenever the present group of `clusterAffinities` fails, the groups are tried from the first one.",
        "Karmada never goes back to an earlier group.",
        "The order states the preference. A group that has recovered is better than none.",
        (),
    )
    CLAIM_ENDS_WITH_ITS_POLICY = DeviationEntry(
        "claim-ends-with-its-policy",
        "When a policy is deleted, the resources that it placed leave the clusters, unless another policy selects "
        "them.",
        "Karmada keeps the ResourceBinding as it was.",
        "Every decision is based on a policy.",
        (),
    )
    EXPIRED_TOLERATION_KEEPS_AWAY = DeviationEntry(
        "expired-toleration-keeps-away",
        "A taint that evicts keeps new pods away if the time for which they tolerate it is over.",
        "Any matching toleration admits the pod, and its time starts again.",
        "The time runs from `timeAdded`, so the pod would have to leave at once, and so would its replacement.",
        (),
    )
    SECONDS_DO_NOT_OVERFLOW = DeviationEntry(
        "seconds-do-not-overflow",
        "Large numbers of seconds and large scores are used as they are.",
        "Products wrap around 64 bits, so a very long toleration can end at once, and a score can exceed 100.",
        "A longer toleration must never mean an earlier eviction.",
        ("evict", "normalize", "karmada_evict", "ocm_schedule"),
    )
    SECONDS_WITH_ANY_EFFECT = DeviationEntry(
        "seconds-with-any-effect",
        "`tolerationSeconds` is allowed with any effect. It counts only for taints that evict.",
        "Validation requires the effect `NoExecute`.",
        "The documents' examples use it with `NoSchedule`, where it has no effect. They can be applied as written.",
        ("validate",),
    )
    KEY_LENGTH = DeviationEntry(
        "key-at-most-253",
        "The key of a taint or toleration has at most 253 bytes in total.",
        "The prefix may have 253 and the name 63 more.",
        "The documents limit the key to 253 characters.",
        ("validate", "parse_taints"),
    )
    WORDS_OF_TODAY = DeviationEntry(
        "words-of-today",
        "The messages of `parse_taints` are those of Kubernetes 1.37.",
        "Karmada contains an older copy, with `characters` for `bytes` and `a qualified name` for `a valid label key`.",
        "A broken rule is reported with the same message everywhere.",
        ("parse_taints",),
    )
    REMOVE_BY_KEY = DeviationEntry(
        "remove-by-key",
        "Removing a taint by key removes the taints with every effect.",
        "`set_taints` looks for a taint with an empty effect, and removes nothing.",
        "`kubectl taint node n1 key-` removes every effect, and the documents show the same.",
        ("set_taints",),
    )
    ADD_ONCE = DeviationEntry(
        "add-once",
        "Adding the same key and effect twice in one change adds one taint, with the first value.",
        "Both are added, and the target has two taints with the same key and effect.",
        "A target has at most one taint for a key and effect. Validation refuses more.",
        ("set_taints",),
    )
    OVERWRITE = DeviationEntry(
        "overwrite",
        "`set_taints` has a field `overwrite`. With it, an existing taint gets the new value and a new `timeAdded`.",
        "The value of an existing taint never changes.",
        "The documents let the user overwrite explicitly, as `kubectl taint --overwrite` does.",
        ("set_taints",),
    )
    TIME_KEEPS_FRACTION = DeviationEntry(
        "time-keeps-fraction",
        "`timeAdded` keeps its fraction of a second.",
        "Times are truncated to whole seconds.",
        "Deadlines are exact. With truncation, a tolerated time would end up to a second early.",
        ("filter", "set_taints", "ctp", "ocm_taint_controller", "ocm_taint_webhook"),
    )
    TIME_COUNTS_FOR_NO_SELECT_ONLY = ocm.TIME_COUNTS_FOR_NO_SELECT_ONLY
    PREFER_NO_SELECT_CAN_SCORE = ocm.PREFER_NO_SELECT_CAN_SCORE
    EMPTY_TYPE_IS_BUILT_IN = ocm.EMPTY_TYPE_IS_BUILT_IN
    NAME_OF_OLDER_VERSIONS = ocm.NAME_OF_OLDER_VERSIONS
    WEIGHT_IS_ONE = ocm.WEIGHT_IS_ONE
    NUMBER_IS_NOT_NEGATIVE = ocm.NUMBER_IS_NOT_NEGATIVE
    BINDING_IS_NAMED_AS_ITS_SET = ocm.BINDING_IS_NAMED_AS_ITS_SET
    SETS_THAT_ARE_ALWAYS_THERE = ocm.SETS_THAT_ARE_ALWAYS_THERE
    OLDER_SET_TYPE = ocm.OLDER_SET_TYPE
    STRATEGY_KEEPS_WHAT_IS_RIGHT = ocm.STRATEGY_KEEPS_WHAT_IS_RIGHT
    LENGTH_AS_DECLARED = ocm.LENGTH_AS_DECLARED
    GROUPS_BY_EXPRESSION = ocm.GROUPS_BY_EXPRESSION
    EXPRESSION_COST_BOUND = ocm.EXPRESSION_COST_BOUND
    LABELS_WITH_THE_CLUSTERS = ocm.LABELS_WITH_THE_CLUSTERS
    DECIDED_AGAIN_IN_TIME = ocm.DECIDED_AGAIN_IN_TIME
    SAME_WORDS_EACH_TIME = ocm.SAME_WORDS_EACH_TIME
    CLUSTER_TAINTS_ARE_CHECKED = ocm.CLUSTER_TAINTS_ARE_CHECKED
    ONE_IDENTITY = ocm.ONE_IDENTITY
    TIME_IS_THE_SYSTEMS = ocm.TIME_IS_THE_SYSTEMS
    BAD_PATCH_IS_THE_CLIENTS = patching.BAD_PATCH_IS_THE_CLIENTS
    OWNERS_BY_NAME = patching.OWNERS_BY_NAME
    PATCH_ORDER_IS_FIXED = patching.PATCH_ORDER_IS_FIXED
    CLEAR_ERRORS = DeviationEntry(
        "clear-errors",
        "A request with an unknown or missing field, or an unknown operation, gets an error with field, value and "
        "rule.",
        "Unknown fields are ignored, missing fields are empty, field names match in any case, and null items crash.",
        "A misspelt field must not silently change the meaning of a request.",
        (
            "tolerates",
            "filter",
            "normalize",
            "evict",
            "validate",
            "parse_taints",
            "set_taints",
            "ctp",
            "karmada_evict",
            "karmada_filter",
            "ocm_schedule",
            "ocm_taint_controller",
            "ocm_taint_webhook",
        ),
    )
    NAMESPACE_OF_ITS_OBJECTS = DeviationEntry(
        "namespace-of-its-objects",
        "A namespace that nobody has declared exists while it has declared objects, or a managed cluster of its name.",
        "A namespace is always an object. OCM's hub creates one for each managed cluster.",
        "Objects were accepted in any namespace by earlier versions, and go on as before.",
        (),
    )
    ORPHANED_PODS_ARE_MADE_AGAIN = DeviationEntry(
        "orphaned-pods-are-made-again",
        "When a Deployment is deleted with `Orphan`, its ReplicaSets make new pods, and those of the Deployment end.",
        "The pods stay: they belong to the ReplicaSets.",
        "The pods of a Deployment are decided on as a whole, in the partition of its key.",
        (),
    )
    CONTROLLERS_RELEASE_NO_PODS = DeviationEntry(
        "controllers-release-no-pods",
        "Labels by which a controller selects its pods cannot be changed on one of them.",
        "The controller releases the pod, which stays by itself, and makes another one.",
        "A pod without a controller has no template that it could be shown from.",
        (),
    )
    NO_PROGRESS_DEADLINE = DeviationEntry(
        "no-progress-deadline",
        "A rollout that makes no progress stays `Progressing` with the reason `ReplicaSetUpdated`.",
        "After `progressDeadlineSeconds` it is False with the reason `ProgressDeadlineExceeded`.",
        "A status follows from records alone, and no record says that nothing happens.",
        (),
    )
    UPDATE_WITHOUT_VERSION = DeviationEntry(
        "update-without-version",
        "An object may be replaced without naming its `resourceVersion`, of every kind.",
        "Leases, disruption budgets and custom resources are replaced only by their version.",
        "A heartbeat or a script that replaces the whole object loses nothing by it. "
        "Who names a version is held to it.",
        (),
    )
    POD_GOES_AT_ONCE = DeviationEntry(
        "pod-goes-at-once",
        "A deleted pod goes at once, with its binding, unless finalizers hold it. Grace periods are not used.",
        "A bound pod stays until its kubelet confirms that it has ended.",
        "Deployers learn from the end of a binding that a pod has to be stopped, and confirm nothing. One that has to "
        "clean up sets a finalizer.",
        (),
    )

    @property
    def slug(self) -> str:
        """The id, as used in tests and documents."""
        return self.value.slug

    @property
    def title(self) -> str:
        """What Moorage does, in one sentence."""
        return self.value.title

    @property
    def upstream(self) -> str:
        """What upstream's code does."""
        return self.value.upstream

    @property
    def reason(self) -> str:
        """Why Moorage departs from it."""
        return self.value.reason

    @property
    def operations(self) -> tuple[str, ...]:
        """The `eval` operations whose answers it can change."""
        return self.value.operations


def _where(deviation: Deviation) -> str:
    return ", ".join(f"`{operation}`" for operation in deviation.operations) or "not in `eval`"


def as_table() -> str:
    """The list as a Markdown table, with one row for each deviation, in the order of the enumeration."""
    rows = [
        "| id | Moorage | upstream's code | reason | operations |",
        "|---|---|---|---|---|",
        *(f"| `{d.slug}` | {d.title} | {d.upstream} | {d.reason} | {_where(d)} |" for d in Deviation),
    ]
    return "\n".join(rows) + "\n"
