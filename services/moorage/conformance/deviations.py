"""The complete list of deliberate deviations from upstream's code.

`moorage eval --as upstream` answers without these, `--as documented` with them. A differential test may exclude a case
only by naming one of them. `docs/deviations.md` shows this list, and a test compares the two.
"""

from __future__ import annotations

from enum import Enum

from moorage.conformance import deviations_ocm as ocm
from moorage.conformance.deviation_entry import DeviationEntry


class Deviation(Enum):
    """A named deviation. `slug` is its id. `operations` are the `eval` operations whose answers it can change."""

    EMPTY_KEY_NEEDS_EXISTS = DeviationEntry(
        "empty-key-needs-exists",
        "A toleration without key matches only with the operator `Exists`.",
        "An empty key with `Equal`, or with no operator, matches every taint of the same value.",
        "The documents allow an empty key only with `Exists`; a slip in a manifest must not tolerate everything.",
        ("tolerates", "filter", "evict", "karmada_evict", "karmada_filter"),
    )
    EXISTS_TAKES_NO_VALUE = DeviationEntry(
        "exists-takes-no-value",
        "A toleration with `Exists` and a value matches nothing.",
        "The value is ignored, and the toleration matches.",
        "The documents demand an empty value; who wrote one meant `Equal`, and would tolerate more than meant.",
        ("tolerates", "filter", "evict", "karmada_evict", "karmada_filter"),
    )
    COMPARISON_OPERATORS_ON = DeviationEntry(
        "comparison-operators-on",
        "`Gt` and `Lt` count unless `comparisonOperators` is false in the request.",
        "They stand behind an alpha feature gate that is off; the eviction controller has it off always.",
        "They are part of Moorage's matching, and the filter and the eviction must agree on what is tolerated.",
        ("tolerates", "filter", "evict", "validate", "karmada_evict", "karmada_filter", "ocm_schedule"),
    )
    DEADLINE_FROM_TIME_ADDED = DeviationEntry(
        "deadline-from-time-added",
        "A tolerated time runs from the taint's `timeAdded`, and the earliest end over the taints counts.",
        "It runs from when the controller sees the taint, for the shortest of the tolerated times.",
        "A restart of a controller must not lengthen it; a deadline is absolute and the same for everyone.",
        ("evict",),
    )
    DEADLINE_FOLLOWS_TOLERATIONS = DeviationEntry(
        "deadline-follows-tolerations",
        "A changed `tolerationSeconds` moves the deadline of a pod that is scheduled to leave, later or earlier.",
        "Kubernetes keeps the time for which it first scheduled the pod, unless it may now stay for ever or must go at "
        "once.",
        "What is in force says how long is tolerated; the same state has the same deadline, however it came about.",
        (),
    )
    SECONDS_OF_FIRST_MATCH = DeviationEntry(
        "seconds-of-first-match",
        "On clusters too, a taint's tolerated time is that of the first toleration that matches it, and of no other.",
        "Karmada lets the seconds of a toleration that is used for one taint count for every taint that it matches.",
        "One rule for nodes and clusters; who tolerates a taint for longer by an earlier toleration means it.",
        ("karmada_evict",),
    )
    NO_TIME_IS_AT_ONCE = DeviationEntry(
        "no-time-is-at-once",
        "A toleration of zero or fewer seconds means at once on clusters too, whatever `timeAdded` says.",
        "Karmada adds the seconds to `timeAdded`, which may lie ahead of its clock.",
        "The documents say so; and no clock that is ahead may keep work where it is not tolerated.",
        ("karmada_evict",),
    )
    MISSING_TIME_ADDED_IS_NOW = DeviationEntry(
        "missing-time-added-is-now",
        "Where a cluster's taint has no `timeAdded`, the tolerated time begins now.",
        "Karmada passes such a taint over, so it is tolerated for ever.",
        "A time that was limited must end; taints that Moorage holds always have `timeAdded`.",
        ("karmada_evict",),
    )
    NOTHING_CHANGED_NOTHING_WRITTEN = DeviationEntry(
        "nothing-changed-nothing-written",
        "A policy that adds and removes the same taint of a cluster that has none changes nothing, and says nothing.",
        "Karmada writes the cluster, and an event, for an emptied list is not an absent one.",
        "A change that is none would wake everyone who waits for changes.",
        ("ctp",),
    )
    KEPT_THROUGH_ONE_UPDATE = DeviationEntry(
        "kept-through-one-update",
        "A taint that one evaluation of policies takes away and adds again with the same value was there all the time.",
        "Karmada gives it a new `timeAdded`, so the time that is tolerated begins anew, and writes the cluster.",
        "An evaluation that changes nothing, such as that after a restart, must not put deadlines off.",
        ("ctp",),
    )
    OLDER_ZONE_FIELD = DeviationEntry(
        "older-zone-field",
        "A cluster with the older field `spec.zone` alone is in that zone.",
        "Karmada's webhook copies it into `spec.zones`; to what looks at clusters the older field means nothing.",
        "`eval` has no webhook before it, and the cluster is meant.",
        ("ctp",),
    )
    SILENT_CLUSTER_IS_READY = DeviationEntry(
        "silent-cluster-is-ready",
        "A cluster of which nobody has ever reported `Ready` carries no system taint.",
        "Karmada taints it `cluster.karmada.io/not-ready` until its own agent reports.",
        "A cluster may be declared where no probe runs yet; nodes are treated the same.",
        (),
    )
    SILENT_NODE_IS_READY = DeviationEntry(
        "silent-node-is-ready",
        "A node of which nobody has ever reported `Ready` counts as ready in its zone.",
        "A node without the condition counts as not ready.",
        "Nodes may be declared where no probe runs yet; a fleet without probes must not stop every zone.",
        (),
    )
    BUILT_IN_IS_THE_STATES = DeviationEntry(
        "built-in-is-the-states",
        "A built-in taint is there when the target's state asks for it and, where it evicts, its zone lets it; what "
        "people or policies ask for of it changes nothing, nor its value and `timeAdded`.",
        "A controller takes it away again, or puts it back, when it next looks: `NoExecute` of a node only once its "
        "`Ready` is known and True, one that came by hand is swapped past the zone's rate, and a value stays.",
        "The outcome is the same, without the time between; and no old file may evict from a node that is well, or "
        "from a zone that is held.",
        ("ctp",),
    )
    EVERY_NODE_COUNTS_IN_ITS_ZONE = DeviationEntry(
        "every-node-counts-in-its-zone",
        "A node labelled `node.kubernetes.io/exclude-disruption` counts in its zone as any other.",
        "Such a node is left out when a zone's state is worked out.",
        "What a zone shows is all there is of it; nothing here needs a node that is not part of the fleet.",
        (),
    )
    ZONE_RATE_FOLLOWS_SIZE = DeviationEntry(
        "zone-rate-follows-size",
        "A zone's rate follows its number of nodes while its state stays, and a passing rate of 0 empties the token "
        "only if a node is kept waiting by it.",
        "The rate is set when the state changes, with the size of that moment, and an emptied limiter stays so.",
        "What may be done depends on what is there, not on the order in which it was told.",
        (),
    )
    BUDGETS_HOLD_TAINT_EVICTIONS = DeviationEntry(
        "budgets-hold-taint-evictions",
        "An eviction by a taint is held by a PodDisruptionBudget, for `disruption_budget_patience` at most.",
        "Kubernetes' taint eviction deletes pods past every budget.",
        "Who declares a budget means it for taints too; patience keeps a node that is gone from keeping its pods.",
        (),
    )
    NOTHING_LEAVES_WITHOUT_REPLACEMENT = DeviationEntry(
        "nothing-leaves-without-replacement",
        "Work leaves a cluster only when its placement is whole without it, unless the user asked for it.",
        "Karmada lets it go when the grace period ends, at once with the purge mode Directly.",
        "An outage of everything must not remove the last copy.",
        (),
    )
    HEARTBEATS_BY_SOURCE = DeviationEntry(
        "heartbeats-by-source",
        "A source that falls silent makes Unknown what it said last, of every type.",
        "Kubernetes makes four conditions of a node Unknown, Karmada `Ready` alone, whoever reported them.",
        "Anyone may report any condition; what nobody confirms any more is not known, and the rest is.",
        (),
    )
    NO_MAXIMUM_MEANS_NO_LIMIT = DeviationEntry(
        "no-maximum-means-no-limit",
        "A spread constraint with `maxGroups` 0 or without it sets no limit.",
        "Karmada's scheduler chooses no cluster.",
        "The field's own words say that it has no limit unless one is given.",
        (),
    )
    SPREAD_BY_FIELD_ONLY = DeviationEntry(
        "spread-by-field-only",
        "A policy with `spreadByLabel` is refused.",
        "Karmada takes it, and its scheduler does not know it.",
        "What is asked for and cannot be had is better said at once.",
        (),
    )
    SCALE_DOWN_AMONG_THE_CHOSEN = DeviationEntry(
        "scale-down-among-the-chosen",
        "Scaling down leaves replicas on the clusters that are chosen now, and on no others.",
        "Karmada may leave them on clusters that its selection has just ruled out.",
        "A cluster that is ruled out keeps nothing.",
        (),
    )
    UNKNOWN_ROOM_IS_ENOUGH = DeviationEntry(
        "unknown-room-is-enough",
        "A cluster that declares no `resourceSummary`, or says nothing of a resource in it, has enough.",
        "Karmada takes it to have nothing.",
        "Nodes are treated so too; who declares nothing does not want to be asked.",
        (),
    )
    AFFINITY_GROUPS_FROM_THE_FIRST = DeviationEntry(
        "affinity-groups-from-the-first",
        "`clusterAffinities` are tried from the first one whenever the present one fails.",
        "Karmada never goes back to an earlier group.",
        "The order says what is preferred; a group that is whole again is better than none.",
        (),
    )
    CLAIM_ENDS_WITH_ITS_POLICY = DeviationEntry(
        "claim-ends-with-its-policy",
        "When a policy is deleted, what it placed leaves the clusters, unless another policy selects it.",
        "Karmada keeps the ResourceBinding as it was.",
        "A decision always has a policy that it follows from.",
        (),
    )
    EXPIRED_TOLERATION_KEEPS_AWAY = DeviationEntry(
        "expired-toleration-keeps-away",
        "A taint that evicts keeps new pods away when the time for which they tolerate it is over.",
        "Any matching toleration admits the pod, whose time then begins anew.",
        "The time runs from `timeAdded`, so the pod would have to leave at once, and its replacement after it.",
        (),
    )
    SECONDS_DO_NOT_OVERFLOW = DeviationEntry(
        "seconds-do-not-overflow",
        "A large number of seconds, or a large score, is taken as it is.",
        "Products wrap around 64 bits, so a very long toleration can end at once, and a score can exceed 100.",
        "A longer toleration must never mean an earlier eviction.",
        ("evict", "normalize", "karmada_evict", "ocm_schedule"),
    )
    SECONDS_WITH_ANY_EFFECT = DeviationEntry(
        "seconds-with-any-effect",
        "`tolerationSeconds` may stand with any effect; it counts only where the taint evicts.",
        "Validation wants the effect to be `NoExecute`.",
        "The documents' own examples put it beside `NoSchedule`, where it means nothing; they apply as written.",
        ("validate",),
    )
    KEY_LENGTH = DeviationEntry(
        "key-at-most-253",
        "A taint's or toleration's key is at most 253 bytes in all.",
        "The prefix alone may have 253 and the name 63 more.",
        "The documents limit the key to 253 characters.",
        ("validate", "parse_taints"),
    )
    WORDS_OF_TODAY = DeviationEntry(
        "words-of-today",
        "The messages of `parse_taints` are those of Kubernetes 1.37.",
        "Karmada carries an older copy, with `characters` for `bytes` and `a qualified name` for `a valid label key`.",
        "The same broken rule reads the same wherever it is found.",
        ("parse_taints",),
    )
    REMOVE_BY_KEY = DeviationEntry(
        "remove-by-key",
        "Removing a taint by its key alone removes it with every effect.",
        "`set_taints` finds only a taint whose effect is empty; nothing is removed.",
        "`kubectl taint node n1 key-` removes every effect, and the documents show it so.",
        ("set_taints",),
    )
    ADD_ONCE = DeviationEntry(
        "add-once",
        "Adding the same key and effect twice in one change adds it once; the first value holds.",
        "Both are added, and the target has two taints of one identity.",
        "A target has at most one taint of a key and effect; validation refuses the rest.",
        ("set_taints",),
    )
    OVERWRITE = DeviationEntry(
        "overwrite",
        "`set_taints` takes `overwrite`: what is there gets the new value and a new `timeAdded`.",
        "The value of a taint that is there never changes.",
        "The documents let the user overwrite explicitly, as `kubectl taint --overwrite` does.",
        ("set_taints",),
    )
    TIME_KEEPS_FRACTION = DeviationEntry(
        "time-keeps-fraction",
        "`timeAdded` keeps its fraction of a second.",
        "Times are cut to whole seconds.",
        "Deadlines are held to the instant; cutting would end a tolerated time up to a second early.",
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
    LABELS_WITH_THE_CLUSTERS = ocm.LABELS_WITH_THE_CLUSTERS
    DECIDED_AGAIN_IN_TIME = ocm.DECIDED_AGAIN_IN_TIME
    SAME_WORDS_EACH_TIME = ocm.SAME_WORDS_EACH_TIME
    CLUSTER_TAINTS_ARE_CHECKED = ocm.CLUSTER_TAINTS_ARE_CHECKED
    ONE_IDENTITY = ocm.ONE_IDENTITY
    TIME_IS_THE_SYSTEMS = ocm.TIME_IS_THE_SYSTEMS
    CLEAR_ERRORS = DeviationEntry(
        "clear-errors",
        "A request with an unknown or missing field, or an operation that is not there, is refused by field, "
        "value and rule.",
        "Unknown fields are ignored, missing ones are empty, field names match in any case, null items crash.",
        "A misspelt field must not turn silently into another question.",
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
