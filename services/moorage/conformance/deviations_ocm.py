"""The deviations of the OCM dialect. `deviations` includes them in the full list."""

from __future__ import annotations

from typing import Final

from moorage.conformance.deviation_entry import DeviationEntry

_SCHEDULE: Final = ("ocm_schedule",)

TIME_COUNTS_FOR_NO_SELECT_ONLY: Final = DeviationEntry(
    "time-counts-for-no-select-only",
    "`tolerationSeconds` is ignored if the taint's effect is `NoSelectIfNew`.",
    "In OCM such a toleration expires, too.",
    "The documents and OCM's own API say that it is ignored.",
    _SCHEDULE,
)
PREFER_NO_SELECT_CAN_SCORE: Final = DeviationEntry(
    "prefer-no-select-can-score",
    "There is a built-in prioritizer `PreferNoSelect`, with the default weight 0.",
    "OCM neither filters nor scores by `PreferNoSelect`, and has no prioritizer of that name.",
    "Otherwise the effect would have no use. With the default weight, decisions are the same as OCM's.",
    _SCHEDULE,
)
EMPTY_TYPE_IS_BUILT_IN: Final = DeviationEntry(
    "empty-type-is-built-in",
    "A score coordinate without `type` is of type `BuiltIn`.",
    "OCM's code treats it as an add-on's score. In practice its API server fills in the default.",
    "The API and the documents name `BuiltIn` as the default, and `eval` runs without an API server.",
    _SCHEDULE,
)
NAME_OF_OLDER_VERSIONS: Final = DeviationEntry(
    "name-of-older-versions",
    "A prioritizer may be named by the deprecated field `name`.",
    "OCM's v1beta1 requires `scoreCoordinate`.",
    "The documents use it, and every manifest in them can be applied as written.",
    _SCHEDULE,
)
WEIGHT_IS_ONE: Final = DeviationEntry(
    "weight-is-one",
    "A prioritizer without `weight` has the weight 1.",
    "OCM's code reads 0. In practice its API server fills in 1.",
    "The API states this default, and `eval` runs without an API server.",
    _SCHEDULE,
)
NUMBER_IS_NOT_NEGATIVE: Final = DeviationEntry(
    "number-is-not-negative",
    "A negative `numberOfClusters` makes the placement Misconfigured. The API already refuses it.",
    "OCM's scheduler crashes.",
    "Bad input gets a clear error.",
    _SCHEDULE,
)
BINDING_IS_NAMED_AS_ITS_SET: Final = DeviationEntry(
    "binding-is-named-as-its-set",
    "A ManagedClusterSetBinding whose `spec.clusterSet` is not its own name is refused.",
    "OCM's scheduler never reads `spec.clusterSet`: the binding's name counts.",
    "If the two names differ, it is unknown which one the user meant.",
    _SCHEDULE,
)
SETS_THAT_ARE_ALWAYS_THERE: Final = DeviationEntry(
    "sets-that-are-always-there",
    "The sets `default` and `global` always exist and cannot be changed. A cluster that names no set is in `default`.",
    "Controllers and a webhook of OCM create the sets and label the clusters. The scheduler is not involved.",
    "The result is the same, but there is no time at which they are missing.",
    _SCHEDULE,
)
OLDER_SET_TYPE: Final = DeviationEntry(
    "older-set-type",
    "A set of type `LegacyClusterSetLabel` contains the clusters that name it. A set of an unknown type is refused.",
    "OCM's conversion replaces the older type. For its scheduler, both types are errors that stop all scheduling.",
    "`eval` runs without that conversion, and one invalid set must not stop placements.",
    _SCHEDULE,
)
STRATEGY_KEEPS_WHAT_IS_RIGHT: Final = DeviationEntry(
    "strategy-keeps-what-is-right",
    "In an invalid decision strategy, an invalid length or group counts as absent. The placement is Misconfigured, and "
    "its clusters stay selected.",
    "OCM deletes the PlacementDecisions, although the condition PlacementSatisfied states that all are scheduled.",
    "A mistake in the grouping of decisions must not remove work from its clusters.",
    _SCHEDULE,
)
LENGTH_AS_DECLARED: Final = DeviationEntry(
    "length-as-declared",
    "`clustersPerDecisionGroup` has the values that the API allows: a number of at least 1, also as text, or 1% to "
    "100%.",
    "OCM's code accepts any percentage and number, treats values out of range as all, and refuses numbers as text.",
    "The same values are valid here as in the API.",
    _SCHEDULE,
)
GROUPS_BY_EXPRESSION: Final = DeviationEntry(
    "groups-by-expression",
    "The selector of a decision group may contain CEL expressions, like that of a predicate.",
    "OCM's groups support only labels and claims.",
    "The same kind of selector is used everywhere.",
    _SCHEDULE,
)
EXPRESSION_COST_BOUND: Final = DeviationEntry(
    "expression-cost-bound",
    "An expression is not evaluated when its cost may exceed the limit, brackets are at most 95 deep, and the cost for "
    "all clusters together is limited.",
    "OCM counts the cost while it evaluates, and the limits apply to each cluster alone. Its depth is at most 250.",
    "The library that evaluates expressions counts nothing. The bound depends on the data alone, so a replay has the "
    "same result.",
    (),
)
LABELS_WITH_THE_CLUSTERS: Final = DeviationEntry(
    "labels-with-the-clusters",
    "A PlacementDecision's labels are written together with its clusters.",
    "When the clusters change, OCM updates the labels only in the next round.",
    "A reader must not see clusters under the labels of another group.",
    _SCHEDULE,
)
DECIDED_AGAIN_IN_TIME: Final = DeviationEntry(
    "decided-again-in-time",
    "A placement is decided again when a toleration of a newly selected cluster expires, and when a score expires.",
    "OCM considers only the clusters that the placement had before, and no scores.",
    "A decision must not outlast what it is based on, and the next change may be far in the future.",
    _SCHEDULE,
)
SAME_WORDS_EACH_TIME: Final = DeviationEntry(
    "same-words-each-time",
    "If there are several warnings, the first prioritizer's is reported, with the clusters sorted by name.",
    "Which warning OCM reports, and in which order, varies from call to call.",
    "The same input gives the same decision, byte for byte.",
    _SCHEDULE,
)
CLUSTER_TAINTS_ARE_CHECKED: Final = DeviationEntry(
    "cluster-taints-are-checked",
    "A person's taints on a managed cluster are validated like those on a node: key, value, effect, no duplicates.",
    "OCM's webhook checks only `timeAdded`, and its API the effect and the length of the key. Its scheduler treats an "
    "unknown effect as `NoSelect`.",
    "Bad input gets a clear error, and a target has at most one taint of a key and effect.",
    ("ocm_taint_webhook",),
)
ONE_IDENTITY: Final = DeviationEntry(
    "one-identity",
    "On managed clusters too, a taint is identified by its key and effect.",
    "OCM's taint controller also compares the value. Its webhook finds the earlier taint only by key.",
    "All targets have the same rule. With two taints of one key, the webhook compares the second with the first.",
    ("ocm_taint_controller", "ocm_taint_webhook"),
)
TIME_IS_THE_SYSTEMS: Final = DeviationEntry(
    "time-is-the-systems",
    "A built-in taint has `timeAdded` at once. A person's `timeAdded` for a managed cluster's taint is ignored, with a "
    "warning.",
    "OCM's controller leaves `timeAdded` to the webhook, which refuses an update that sets it, or that omits it for an "
    "existing taint.",
    "Manifests are applied repeatedly, and they do not contain such times.",
    ("ocm_taint_controller", "ocm_taint_webhook"),
)
