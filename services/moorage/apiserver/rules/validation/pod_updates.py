"""Validation of changes of a pod: what of its spec may change."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes.field_errors import FieldError

Fields = Mapping[str, Any]

_ONLY: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_KEPT_TOLERATION: Final = "existing toleration can not be modified except its tolerationSeconds"
_FREE: Final = frozenset({"activeDeadlineSeconds", "schedulingGates", "tolerations"})
_GRACE: Final = "terminationGracePeriodSeconds"
_DEADLINE: Final = "activeDeadlineSeconds"
_REQUIREMENTS: Final = ("matchExpressions", "matchFields")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a pod. Only images and deadlines may change, tolerations be added, and gates be removed.

    While there are gates, the nodes that it may have may become fewer.
    """
    old, new = CheckedField(before)["spec"], CheckedField(after)["spec"]
    for field in ("containers", "initContainers"):
        if len(old[field].items) != len(new[field].items):
            new[field].forbidden("pod updates may not add or remove containers")
            return new.errors
    _check_deadline(old[_DEADLINE].number, new[_DEADLINE])
    if new.errors and new[_DEADLINE].number is not None:
        return new.errors
    wanted = [_timeless(one.fields) for one in new["tolerations"].objects()]
    if any(_timeless(one.fields) not in wanted for one in old["tolerations"].objects()):
        new["tolerations"].forbidden(_KEPT_TOLERATION)
    known = {gate["name"].text for gate in old["schedulingGates"].objects()}
    for name in (gate["name"] for gate in new["schedulingGates"].objects()):
        if name.text not in known:
            name.forbidden(f"only deletion is allowed, but found new scheduling gate '{name.text}'")
    if old["schedulingGates"].items:
        _check_choice_of_node(old, new)
    _check_others(old, new, is_gated=bool(old["schedulingGates"].items))
    return new.errors


def _check_deadline(old: int | None, new: CheckedField) -> None:
    if new.number is None:
        if old is not None:
            new.invalid("must not update from a positive integer to nil value", None)
    elif old is not None and old < new.number:
        new.invalid("must be less than or equal to previous value")


def _timeless(toleration: Fields) -> dict[str, Any]:
    given = {key: value for key, value in toleration.items() if value not in ("", None) and key != "tolerationSeconds"}
    return {"operator": "Equal", **given}


def _check_choice_of_node(old: CheckedField, new: CheckedField) -> None:
    """Check the choice of a gated pod's node. It may become narrower, and a required node affinity may be set."""
    labels, terms = new["nodeSelector"], _terms(new)
    if not old["nodeSelector"].fields.items() <= labels.fields.items():
        rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        labels.invalid(rule, dict(labels.fields) or None)
    known = _terms(old).items
    if known and len(known) != len(terms.items):
        shown = [_shown_term(one) for one in terms.items] or None
        terms.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed", shown)
    elif known:
        for before, after in zip(known, terms.each(), strict=True):
            if not _begins(CheckedField(after.value), CheckedField(before)):
                rule = "only additions are allowed (no mutations or deletions)"
                after.invalid(rule, _shown_term(after.value))


def _terms(spec: CheckedField) -> CheckedField:
    return spec["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]


def _shown_term(term: Fields) -> dict[str, Any]:
    """Return a term as a kube-apiserver's messages show it, which have the names of its internal form."""
    return {
        field[0].upper() + field[1:]: [
            {"Key": one.get("key") or "", "Operator": one.get("operator") or "", "Values": one.get("values")}
            for one in CheckedField(term)[field].items
        ]
        or None
        for field in _REQUIREMENTS
    }


def _begins(after: CheckedField, before: CheckedField) -> bool:
    """Return whether the requirements begin with those from before. A term without any matches nothing."""
    is_empty = not any(before[field].items for field in _REQUIREMENTS)
    return all(
        not after[field].items if is_empty else after[field].items[: len(before[field].items)] == before[field].items
        for field in _REQUIREMENTS
    )


def _check_others(old: CheckedField, new: CheckedField, *, is_gated: bool) -> None:
    kept, wanted = _fixed(old.fields), _fixed(_with_choice_of(old, new) if is_gated else new.fields)
    if (old[_GRACE].number or 0) < 0 and new[_GRACE].number == 1:
        wanted[_GRACE] = old[_GRACE].value
    if kept != wanted:
        new.forbidden(f"{_ONLY}\n{_difference(kept, wanted)}")


def _with_choice_of(old: CheckedField, new: CheckedField) -> dict[str, Any]:
    """Return the new spec with the old choice of nodes."""
    affinity = {**new["affinity"].fields, "nodeAffinity": old["affinity"]["nodeAffinity"].fields}
    given = {field: value for field, value in affinity.items() if value}
    return {**new.fields, "nodeSelector": old["nodeSelector"].value, "affinity": given}


def _fixed(spec: Fields) -> dict[str, Any]:
    """Return the parts of a spec that may not change. Empty values count as absent."""
    fixed = {key: value for key, value in spec.items() if key not in _FREE and value not in ("", None, {}, [])}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{key: value for key, value in one.items() if key != "image"} for one in fixed[field]]
    return fixed


def _difference(old: Fields, new: Fields) -> str:
    """Return the lines that differ, each with a few around it. They have the names of the API's fields."""
    before, after = (json.dumps(one, indent=2, sort_keys=True, ensure_ascii=False) for one in (old, new))
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    return "\n".join([*lines, ""])
