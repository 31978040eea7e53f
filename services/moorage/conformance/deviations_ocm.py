"""The deviations of the OCM dialect. `deviations` includes them in the full list."""

from __future__ import annotations

from typing import Final

from moorage.conformance.deviation_entry import DeviationEntry

_SCHEDULE: Final = ("ocm_schedule",)

TIME_COUNTS_FOR_NO_SELECT_ONLY: Final = DeviationEntry(
    "time-counts-for-no-select-only",
    "`tolerationSeconds` is ignored where the taint's effect is `NoSelectIfNew`.",
    "OCM lets such a toleration expire too.",
    "The documents and OCM's own API say that it is ignored.",
    _SCHEDULE,
)
PREFER_NO_SELECT_CAN_SCORE: Final = DeviationEntry(
    "prefer-no-select-can-score",
    "There is a built-in prioritizer `PreferNoSelect`, with the default weight 0.",
    "OCM neither filters nor scores by `PreferNoSelect`, and knows no prioritizer of that name.",
    "Otherwise nothing would prefer anything; without a weight for it, decisions are OCM's.",
    _SCHEDULE,
)
EMPTY_TYPE_IS_BUILT_IN: Final = DeviationEntry(
    "empty-type-is-built-in",
    "A score coordinate without `type` is a `BuiltIn` one.",
    "OCM's code takes it for an add-on's; its API server fills in the default before.",
    "The API and the documents name `BuiltIn` as the default, and `eval` has no API server before it.",
    _SCHEDULE,
)
NAME_OF_OLDER_VERSIONS: Final = DeviationEntry(
    "name-of-older-versions",
    "A prioritizer may be named by the deprecated field `name`.",
    "OCM's v1beta1 wants `scoreCoordinate`.",
    "The documents use it, and every manifest in them applies as written.",
    _SCHEDULE,
)
WEIGHT_IS_ONE: Final = DeviationEntry(
    "weight-is-one",
    "A prioritizer without `weight` has the weight 1.",
    "OCM's code reads 0; its API server fills in 1 before.",
    "The API names the default, and `eval` has no API server before it.",
    _SCHEDULE,
)
NUMBER_IS_NOT_NEGATIVE: Final = DeviationEntry(
    "number-is-not-negative",
    "A negative `numberOfClusters` makes the placement Misconfigured; the API refuses it before.",
    "OCM's scheduler crashes.",
    "Bad input gets a clear error.",
    _SCHEDULE,
)
BINDING_IS_NAMED_AS_ITS_SET: Final = DeviationEntry(
    "binding-is-named-as-its-set",
    "A ManagedClusterSetBinding whose `spec.clusterSet` is not its own name is refused.",
    "OCM's scheduler never reads `spec.clusterSet`: the binding's name counts.",
    "Who writes two names means one of them, and nobody knows which.",
    _SCHEDULE,
)
SETS_THAT_ARE_ALWAYS_THERE: Final = DeviationEntry(
    "sets-that-are-always-there",
    "The sets `default` and `global` exist and are what they are; a cluster that names no set is in `default`.",
    "Controllers and a webhook of OCM make the sets and label the clusters; the scheduler knows nothing of it.",
    "The outcome is the same, without a time at which they are missing.",
    _SCHEDULE,
)
OLDER_SET_TYPE: Final = DeviationEntry(
    "older-set-type",
    "A set of the type `LegacyClusterSetLabel` has the clusters that name it; one of an unknown type is refused.",
    "OCM's conversion turns the older type into today's; to its scheduler each is an error that stops everything.",
    "`eval` has no conversion before it, and one wrong set must not stop placements.",
    _SCHEDULE,
)
STRATEGY_KEEPS_WHAT_IS_RIGHT: Final = DeviationEntry(
    "strategy-keeps-what-is-right",
    "Of a wrong decision strategy the wrong length counts as none and the wrong group as not there; the placement is "
    "Misconfigured, and its clusters stay selected.",
    "OCM deletes the PlacementDecisions, while the condition PlacementSatisfied says that all are scheduled.",
    "A slip in how decisions are laid out must not take work off its clusters.",
    _SCHEDULE,
)
LENGTH_AS_DECLARED: Final = DeviationEntry(
    "length-as-declared",
    "`clustersPerDecisionGroup` is what the API allows: a number from 1, also as text, or 1% to 100%.",
    "OCM's code takes any percentage and number, those out of range as all, and no number as text.",
    "What the API would refuse is wrong here too, and what it allows is right.",
    _SCHEDULE,
)
GROUPS_BY_EXPRESSION: Final = DeviationEntry(
    "groups-by-expression",
    "The selector of a decision group may have CEL expressions, as that of a predicate may.",
    "OCM's groups know labels and claims only.",
    "One kind of selector everywhere.",
    _SCHEDULE,
)
LABELS_WITH_THE_CLUSTERS: Final = DeviationEntry(
    "labels-with-the-clusters",
    "A PlacementDecision's labels are written together with its clusters.",
    "OCM leaves new labels for the next round when the clusters change.",
    "A reader must not see clusters under the labels of another group.",
    _SCHEDULE,
)
DECIDED_AGAIN_IN_TIME: Final = DeviationEntry(
    "decided-again-in-time",
    "A placement is decided again when a toleration of a cluster that it has just been given expires, and when a score "
    "does.",
    "OCM looks at the clusters that it had before, and at no score.",
    "A decision must not outlive what it rests on, and the next change may be far.",
    _SCHEDULE,
)
SAME_WORDS_EACH_TIME: Final = DeviationEntry(
    "same-words-each-time",
    "Of several warnings the first prioritizer's is told, with the clusters by name.",
    "Which one OCM tells, and in which order, varies from call to call.",
    "The same input gives the same decision, byte for byte.",
    _SCHEDULE,
)
CLUSTER_TAINTS_ARE_CHECKED: Final = DeviationEntry(
    "cluster-taints-are-checked",
    "A person's taints of a managed cluster are checked as a node's are: key, value, effect, each key and effect once.",
    "OCM's webhook looks at `timeAdded` alone, its API at the effect and the length of the key; to the scheduler an "
    "unknown effect is `NoSelect`.",
    "Bad input gets a clear error, and a target has at most one taint of a key and effect.",
    ("ocm_taint_webhook",),
)
ONE_IDENTITY: Final = DeviationEntry(
    "one-identity",
    "On managed clusters too, a taint is known by its key and effect.",
    "OCM's taint controller compares the value as well; its webhook finds the taint that was there by key alone.",
    "One rule for all targets; with two taints of a key, the webhook compares the second with the first.",
    ("ocm_taint_controller", "ocm_taint_webhook"),
)
TIME_IS_THE_SYSTEMS: Final = DeviationEntry(
    "time-is-the-systems",
    "A built-in taint has `timeAdded` at once; a person's `timeAdded` of a managed cluster's taint is not used, and "
    "the API warns of it.",
    "OCM's controller leaves `timeAdded` to the webhook, which refuses an update that sets it, or leaves out that of a "
    "taint that stays.",
    "Manifests are applied again and again, and nobody writes such times into them.",
    ("ocm_taint_controller", "ocm_taint_webhook"),
)
