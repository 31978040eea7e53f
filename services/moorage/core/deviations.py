"""Where Moorage departs on purpose from what upstream's code does; the one list of it.

`moorage eval --as upstream` answers without these, `--as documented` with them. A differential test may leave
out a case only by the name of one. `docs/deviations.md` shows this list, held to it by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class _Entry:
    slug: str
    title: str
    upstream: str
    reason: str
    operations: tuple[str, ...]


class Deviation(Enum):
    """A named departure. `slug` is its id, `operations` the `eval` operations where it can show, if any."""

    EMPTY_KEY_NEEDS_EXISTS = _Entry(
        "empty-key-needs-exists",
        "A toleration without key matches only with the operator `Exists`.",
        "An empty key with `Equal`, or with no operator, matches every taint of the same value.",
        "The documents allow an empty key only with `Exists`; a slip in a manifest must not tolerate everything.",
        ("tolerates", "filter", "evict"),
    )
    EXISTS_TAKES_NO_VALUE = _Entry(
        "exists-takes-no-value",
        "A toleration with `Exists` and a value matches nothing.",
        "The value is ignored, and the toleration matches.",
        "The documents demand an empty value; who wrote one meant `Equal`, and would tolerate more than meant.",
        ("tolerates", "filter", "evict"),
    )
    COMPARISON_OPERATORS_ON = _Entry(
        "comparison-operators-on",
        "`Gt` and `Lt` count unless `comparisonOperators` is false in the request.",
        "They stand behind an alpha feature gate that is off; the eviction controller has it off always.",
        "They are part of Moorage's matching, and the filter and the eviction must agree on what is tolerated.",
        ("tolerates", "filter", "evict", "validate"),
    )
    DEADLINE_FROM_TIME_ADDED = _Entry(
        "deadline-from-time-added",
        "A tolerated time runs from the taint's `timeAdded`, and the earliest end over the taints counts.",
        "It runs from when the controller sees the taint, for the shortest of the tolerated times.",
        "A restart of a controller must not lengthen it; a deadline is absolute and the same for everyone.",
        ("evict",),
    )
    EXPIRED_TOLERATION_KEEPS_AWAY = _Entry(
        "expired-toleration-keeps-away",
        "A taint that evicts keeps new pods away when the time for which they tolerate it is over.",
        "Any matching toleration admits the pod, whose time then begins anew.",
        "The time runs from `timeAdded`, so the pod would have to leave at once, and its replacement after it.",
        (),
    )
    SECONDS_DO_NOT_OVERFLOW = _Entry(
        "seconds-do-not-overflow",
        "A large number of seconds, or a large score, is taken as it is.",
        "Products wrap around 64 bits, so a very long toleration can end at once, and a score can exceed 100.",
        "A longer toleration must never mean an earlier eviction.",
        ("evict", "normalize"),
    )
    SECONDS_WITH_ANY_EFFECT = _Entry(
        "seconds-with-any-effect",
        "`tolerationSeconds` may stand with any effect; it counts only where the taint evicts.",
        "Validation wants the effect to be `NoExecute`.",
        "The documents' own examples put it beside `NoSchedule`, where it means nothing; they apply as written.",
        ("validate",),
    )
    KEY_LENGTH = _Entry(
        "key-at-most-253",
        "A taint's or toleration's key is at most 253 bytes in all.",
        "The prefix alone may have 253 and the name 63 more.",
        "The documents limit the key to 253 characters.",
        ("validate", "parse_taints"),
    )
    WORDS_OF_TODAY = _Entry(
        "words-of-today",
        "The messages of `parse_taints` are those of Kubernetes 1.37.",
        "Karmada carries an older copy, with `characters` for `bytes` and `a qualified name` for `a valid label key`.",
        "The same broken rule reads the same wherever it is found.",
        ("parse_taints",),
    )
    REMOVE_BY_KEY = _Entry(
        "remove-by-key",
        "Removing a taint by its key alone removes it with every effect.",
        "`set_taints` finds only a taint whose effect is empty; nothing is removed.",
        "`kubectl taint node n1 key-` removes every effect, and the documents show it so.",
        ("set_taints",),
    )
    ADD_ONCE = _Entry(
        "add-once",
        "Adding the same key and effect twice in one change adds it once; the first value holds.",
        "Both are added, and the target has two taints of one identity.",
        "A target has at most one taint of a key and effect; validation refuses the rest.",
        ("set_taints",),
    )
    OVERWRITE = _Entry(
        "overwrite",
        "`set_taints` takes `overwrite`: what is there gets the new value and a new `timeAdded`.",
        "The value of a taint that is there never changes.",
        "The documents let the user overwrite explicitly, as `kubectl taint --overwrite` does.",
        ("set_taints",),
    )
    TIME_KEEPS_FRACTION = _Entry(
        "time-keeps-fraction",
        "`timeAdded` keeps its fraction of a second.",
        "Times are cut to whole seconds.",
        "Deadlines are held to the instant; cutting would end a tolerated time up to a second early.",
        ("filter", "set_taints"),
    )
    CLEAR_ERRORS = _Entry(
        "clear-errors",
        "A request with an unknown or missing field, or an operation that is not there, is refused by field, "
        "value and rule.",
        "Unknown fields are ignored, missing ones are empty, field names match in any case, null items crash.",
        "A misspelt field must not turn silently into another question.",
        ("tolerates", "filter", "normalize", "evict", "validate", "parse_taints", "set_taints"),
    )

    @property
    def slug(self) -> str:
        """The id, as tests and documents name it."""
        return self.value.slug

    @property
    def title(self) -> str:
        """What Moorage does, in a sentence."""
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
    return ", ".join(f"`{operation}`" for operation in deviation.operations) or "placement only"


def as_table() -> str:
    """The list as a Markdown table, a row for each, in the order of the enumeration."""
    rows = [
        "| id | Moorage | upstream's code | reason | operations |",
        "|---|---|---|---|---|",
        *(f"| `{d.slug}` | {d.title} | {d.upstream} | {d.reason} | {_where(d)} |" for d in Deviation),
    ]
    return "\n".join(rows) + "\n"
