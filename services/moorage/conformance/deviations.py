"""The complete list of deliberate deviations from upstream's code.

`moorage eval --as upstream` answers without these, `--as documented` with them. A differential test may exclude a case
only by naming one of them. Their texts are in `deviations.yaml`. `docs/deviations.md` shows them, and a test compares
the two.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import yaml


class Deviation(Enum):
    """A named deviation. Its value is its id."""

    EMPTY_KEY_NEEDS_EXISTS = "empty-key-needs-exists"
    EXISTS_TAKES_NO_VALUE = "exists-takes-no-value"
    COMPARISON_OPERATORS_ON = "comparison-operators-on"
    DEADLINE_FROM_TIME_ADDED = "deadline-from-time-added"
    DEADLINE_FOLLOWS_TOLERATIONS = "deadline-follows-tolerations"
    SECONDS_OF_FIRST_MATCH = "seconds-of-first-match"
    NO_TIME_IS_AT_ONCE = "no-time-is-at-once"
    MISSING_TIME_ADDED_IS_NOW = "missing-time-added-is-now"
    ADDED_BY_NOW = "added-by-now"
    NOTHING_CHANGED_NOTHING_WRITTEN = "nothing-changed-nothing-written"
    KEPT_THROUGH_ONE_UPDATE = "kept-through-one-update"
    OLDER_ZONE_FIELD = "older-zone-field"
    SILENT_CLUSTER_IS_READY = "silent-cluster-is-ready"
    SILENT_NODE_IS_READY = "silent-node-is-ready"
    BUILT_IN_IS_THE_STATES = "built-in-is-the-states"
    EVERY_NODE_COUNTS_IN_ITS_ZONE = "every-node-counts-in-its-zone"
    ZONE_RATE_FOLLOWS_SIZE = "zone-rate-follows-size"
    BUDGETS_HOLD_TAINT_EVICTIONS = "budgets-hold-taint-evictions"
    UNREPORTED_PODS_COUNT = "unreported-pods-count"
    NOTHING_LEAVES_WITHOUT_REPLACEMENT = "nothing-leaves-without-replacement"
    TASK_ENDS_WITH_THE_DECISION = "task-ends-with-the-decision"
    PODS_FOLLOW_THEIR_NODE = "pods-follow-their-node"
    HEARTBEATS_BY_SOURCE = "heartbeats-by-source"
    UNBOUND_CLAIMS_ANYWHERE = "unbound-claims-anywhere"
    NO_PREEMPTION = "no-preemption"
    REPLICAS_BY_CONTROLLER = "replicas-by-controller"
    LEAST_AMOUNTS_BY_POD = "least-amounts-by-pod"
    TIES_BY_PODS_AND_NAME = "ties-by-pods-and-name"
    EVERY_NODE_IS_SCORED = "every-node-is-scored"
    UNSTATED_ROOM_IS_ENOUGH = "unstated-room-is-enough"
    NO_BALANCE_OF_RESOURCES = "no-balance-of-resources"
    NO_IMAGE_LOCALITY = "no-image-locality"
    NO_MAXIMUM_MEANS_NO_LIMIT = "no-maximum-means-no-limit"
    SPREAD_BY_FIELD_ONLY = "spread-by-field-only"
    SCALE_DOWN_AMONG_THE_CHOSEN = "scale-down-among-the-chosen"
    UNKNOWN_ROOM_IS_ENOUGH = "unknown-room-is-enough"
    UNKNOWN_KINDS_ARE_SERVED = "unknown-kinds-are-served"
    NO_REQUESTS_NO_GRADES = "no-requests-no-grades"
    SCALED_TO_ZERO_STAYS = "scaled-to-zero-stays"
    ZONES_AND_PROVIDERS_ARE_GROUPS = "zones-and-providers-are-groups"
    WEIGHTED_BY_DEFAULT = "weighted-by-default"
    FULL_GROUPS_ARE_COMPARED = "full-groups-are-compared"
    REASONS_ARE_COMPLETE = "reasons-are-complete"
    DELETED_CLUSTERS_ARE_LEFT_GENTLY = "deleted-clusters-are-left-gently"
    AFFINITY_GROUPS_FROM_THE_FIRST = "affinity-groups-from-the-first"
    CLAIM_ENDS_WITH_ITS_POLICY = "claim-ends-with-its-policy"
    LAZY_UNTIL_NEEDED = "lazy-until-needed"
    EXPIRED_TOLERATION_KEEPS_AWAY = "expired-toleration-keeps-away"
    SECONDS_DO_NOT_OVERFLOW = "seconds-do-not-overflow"
    SECONDS_WITH_ANY_EFFECT = "seconds-with-any-effect"
    KEY_LENGTH = "key-at-most-253"
    WORDS_OF_TODAY = "words-of-today"
    REMOVE_BY_KEY = "remove-by-key"
    ADD_ONCE = "add-once"
    OVERWRITE = "overwrite"
    TIME_KEEPS_FRACTION = "time-keeps-fraction"
    TIME_COUNTS_FOR_NO_SELECT_ONLY = "time-counts-for-no-select-only"
    PREFER_NO_SELECT_CAN_SCORE = "prefer-no-select-can-score"
    EMPTY_TYPE_IS_BUILT_IN = "empty-type-is-built-in"
    NAME_OF_OLDER_VERSIONS = "name-of-older-versions"
    WEIGHT_IS_ONE = "weight-is-one"
    NUMBER_IS_NOT_NEGATIVE = "number-is-not-negative"
    BINDING_IS_NAMED_AS_ITS_SET = "binding-is-named-as-its-set"
    SETS_THAT_ARE_ALWAYS_THERE = "sets-that-are-always-there"
    OLDER_SET_TYPE = "older-set-type"
    ADD_ON_LEASES_STATE_THEIR_DURATION = "add-on-leases-state-their-duration"
    STRATEGY_KEEPS_WHAT_IS_RIGHT = "strategy-keeps-what-is-right"
    LENGTH_AS_DECLARED = "length-as-declared"
    GROUPS_BY_EXPRESSION = "groups-by-expression"
    EXPRESSION_LIMITS = "expression-limits"
    KEYS_IN_ORDER = "keys-in-order"
    EXPRESSION_NEVER_CRASHES = "expression-never-crashes"
    LABELS_WITH_THE_CLUSTERS = "labels-with-the-clusters"
    DECIDED_AGAIN_IN_TIME = "decided-again-in-time"
    SAME_WORDS_EACH_TIME = "same-words-each-time"
    CLUSTER_TAINTS_ARE_CHECKED = "cluster-taints-are-checked"
    ONE_IDENTITY = "one-identity"
    TIME_IS_THE_SYSTEMS = "time-is-the-systems"
    BAD_PATCH_IS_THE_CLIENTS = "bad-patch-is-the-clients"
    OWNERS_BY_NAME = "owners-by-name"
    PATCH_ORDER_IS_FIXED = "patch-order-is-fixed"
    CLEAR_ERRORS = "clear-errors"
    NAMESPACE_OF_ITS_OBJECTS = "namespace-of-its-objects"
    ORPHANED_PODS_ARE_MADE_AGAIN = "orphaned-pods-are-made-again"
    CONTROLLERS_RELEASE_NO_PODS = "controllers-release-no-pods"
    STATEFUL_PODS_AT_ONCE = "stateful-pods-at-once"
    READY_IS_AVAILABLE = "ready-is-available"
    NO_PROGRESS_DEADLINE = "no-progress-deadline"
    UPDATE_WITHOUT_VERSION = "update-without-version"
    POD_GOES_AT_ONCE = "pod-goes-at-once"

    @property
    def slug(self) -> str:
        """The id, as used in tests and documents."""
        return self.value

    @property
    def title(self) -> str:
        """Moorage's behaviour, in one sentence."""
        return str(_entries()[self.value]["title"])

    @property
    def upstream(self) -> str:
        """The behaviour of upstream's code."""
        return str(_entries()[self.value]["upstream"])

    @property
    def reason(self) -> str:
        """Why Moorage departs from it."""
        return str(_entries()[self.value]["reason"])

    @property
    def operations(self) -> tuple[str, ...]:
        """The `eval` operations whose answers it can change."""
        return tuple(_entries()[self.value].get("operations", ()))


@cache
def _entries() -> dict[str, dict[str, Any]]:
    """Return the texts of all deviations, by their ids."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    entries: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return entries
