"""Validation of changes of a pod: what of its spec may change."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import Fields, inner, listed, number, objects, text
from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid

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

    Args:
        before: the pod as it is shown.
        after: the pod as it is wanted, with the defaults of admission.
    """
    old, new = inner(before, "spec"), inner(after, "spec")
    for field in ("containers", "initContainers"):
        if len(listed(old, field)) != len(listed(new, field)):
            return [forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
    deadline = _deadline(number(old, _DEADLINE), number(new, _DEADLINE))
    if deadline is not None and number(new, _DEADLINE) is not None:
        return [deadline]
    errors = [*([deadline] if deadline else []), *_tolerations(old, new), *_gates(old, new)]
    if not listed(old, "schedulingGates"):
        return [*errors, *_others(old, new)]
    return [*errors, *_selector(old, new), *_affinity(old, new), *_others(old, _with_choice_of(old, new))]


def _deadline(old: int | None, new: int | None) -> FieldError | None:
    path = f"spec.{_DEADLINE}"
    if new is None:
        return None if old is None else invalid(path, None, "must not update from a positive integer to nil value")
    if old is not None and old < new:
        return invalid(path, new, "must be less than or equal to previous value")
    return None


def _tolerations(old: Fields, new: Fields) -> Iterator[FieldError]:
    wanted = [_timeless(one) for one, _ in objects(new, "tolerations", "")]
    if any(_timeless(one) not in wanted for one, _ in objects(old, "tolerations", "")):
        yield forbidden("spec.tolerations", _KEPT_TOLERATION)


def _timeless(toleration: Fields) -> dict[str, Any]:
    said = {key: value for key, value in toleration.items() if value not in ("", None) and key != "tolerationSeconds"}
    return {"operator": "Equal", **said}


def _gates(old: Fields, new: Fields) -> Iterator[FieldError]:
    known = {text(gate, "name") for gate, _ in objects(old, "schedulingGates", "")}
    for gate, at in objects(new, "schedulingGates", "spec.schedulingGates"):
        name = text(gate, "name")
        if name not in known:
            yield forbidden(f"{at}.name", f"only deletion is allowed, but found new scheduling gate '{name}'")


def _selector(old: Fields, new: Fields) -> Iterator[FieldError]:
    """While a pod is gated, labels of nodes may be added to those that it needs."""
    wanted = inner(new, "nodeSelector")
    if not inner(old, "nodeSelector").items() <= wanted.items():
        rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", dict(wanted) or None, rule)


def _affinity(old: Fields, new: Fields) -> Iterator[FieldError]:
    """While a pod is gated, its required node affinity may be set, and requirements be added to its terms."""
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    known, wanted = _terms(old), _terms(new)
    if not known:
        return
    if len(known) != len(wanted):
        shown = [_shown_term(one) for one in wanted] or None
        yield invalid(path, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for number_of, (before, after) in enumerate(zip(known, wanted, strict=True)):
        if not all(_begins(after, before, field) for field in _REQUIREMENTS):
            yield invalid(
                f"{path}[{number_of}]", _shown_term(after), "only additions are allowed (no mutations or deletions)"
            )


def _terms(spec: Fields) -> list[Any]:
    return list(listed(inner(inner(inner(spec, "affinity"), "nodeAffinity"), _REQUIRED), "nodeSelectorTerms"))


def _shown_term(term: Fields) -> dict[str, Any]:
    """A term as a kube-apiserver's messages show it, which have the names of its internal form."""
    return {
        field[0].upper() + field[1:]: [
            {"Key": text(one, "key"), "Operator": text(one, "operator"), "Values": one.get("values")}
            for one in listed(term, field)
        ]
        or None
        for field in _REQUIREMENTS
    }


def _begins(after: Fields, before: Fields, field: str) -> bool:
    """Whether a list of requirements begins with those that it had. A term without any matches nothing."""
    known, wanted = listed(before, field), listed(after, field)
    if not any(listed(before, one) for one in _REQUIREMENTS):
        return not wanted
    return list(wanted[: len(known)]) == list(known)


def _with_choice_of(old: Fields, new: Fields) -> dict[str, Any]:
    """The new spec with the old choice of nodes."""
    affinity = {**inner(new, "affinity"), "nodeAffinity": inner(inner(old, "affinity"), "nodeAffinity")}
    said = {field: value for field, value in affinity.items() if value}
    return {**new, "nodeSelector": old.get("nodeSelector"), "affinity": said}


def _others(old: Fields, new: Fields) -> Iterator[FieldError]:
    kept, wanted = _fixed(old), _fixed(new)
    if (number(old, _GRACE) or 0) < 0 and number(new, _GRACE) == 1:
        wanted[_GRACE] = old[_GRACE]
    if kept != wanted:
        yield forbidden("spec", f"{_ONLY}\n{_difference(kept, wanted)}")


def _fixed(spec: Fields) -> dict[str, Any]:
    """What of a spec may not change. Empty values count as absent."""
    fixed = {key: value for key, value in spec.items() if key not in _FREE and value not in ("", None, {}, [])}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{key: value for key, value in one.items() if key != "image"} for one in fixed[field]]
    return fixed


def _difference(old: Fields, new: Fields) -> str:
    """The lines that differ, each with a few around it. They have the names of the API's fields."""
    before, after = (json.dumps(one, indent=2, sort_keys=True, ensure_ascii=False) for one in (old, new))
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    return "\n".join([*lines, ""])
