"""Validation of pods and of the templates that pods are made from, as Kubernetes 1.37 has it.

The errors have Kubernetes' paths and messages, and are in its order. What only a kubelet, a network or a storage driver
uses has no rules beside its structure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.rules.field_defaults import with_template_defaults
from moorage.apiserver.rules.validation import scheduling
from moorage.apiserver.rules.validation.container_resources import pod_resources
from moorage.apiserver.rules.validation.containers import RESTART_POLICIES, containers, images_without_spaces
from moorage.apiserver.rules.validation.core import validate_annotations, validate_labels, validate_tolerations
from moorage.apiserver.rules.validation.fields import (
    Fields,
    dns_subdomain,
    inner,
    labels,
    listed,
    not_negative,
    number,
    objects,
    one_of,
    text,
)
from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid
from moorage_schemas.resources.pod import OpenToleration

_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_LONGEST_DEADLINE: Final = 2**31 - 1


def validate_pod(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a pod, with the defaults of its fields.

    Args:
        document: the pod, as the API shows it.
    """
    spec = inner(document, "spec")
    return [
        *_spec_errors(spec, "spec", of_pod=True),
        *not_negative(spec, "spec", "terminationGracePeriodSeconds"),
        *images_without_spaces(spec, "spec"),
    ]


def validate_new_pod(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate what only a new pod may not have.

    Args:
        document: the pod, as the API shows it.
    """
    spec = inner(document, "spec")
    found = []
    if listed(spec, "ephemeralContainers"):
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if text(spec, "nodeName") and listed(spec, "schedulingGates"):
        rule = "cannot be set until all schedulingGates have been cleared"
        found.append(forbidden("spec.nodeName", rule))
    return found


def validate_pod_template(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """Validate the template that pods are made from: its labels, its annotations and its spec.

    Args:
        template: with the defaults of its fields.
        path: of the template.
    """
    metadata, spec = inner(template, "metadata"), inner(template, "spec") or with_template_defaults({})
    found = [
        *validate_labels(inner(metadata, "labels"), f"{path}.labels"),
        *validate_annotations(inner(metadata, "annotations"), f"{path}.annotations"),
        *_spec_errors(spec, f"{path}.spec", of_pod=False),
    ]
    if listed(spec, "ephemeralContainers"):
        found.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return found


def _spec_errors(spec: Fields, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    yield from containers(spec, path)
    yield from pod_resources(spec, path)
    yield from _host_network(spec, path, of_pod=of_pod)
    yield from one_of(text(spec, "restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    yield from labels(inner(spec, "nodeSelector"), f"{path}.nodeSelector")
    yield from scheduling.affinity(spec, f"{path}.affinity")
    yield from scheduling.gates(spec, path)
    yield from scheduling.spread_constraints(spec, f"{path}.topologySpreadConstraints")
    yield from _names(spec, path)
    tolerations = [OpenToleration.model_validate(one) for one, _ in objects(spec, "tolerations", path)]
    yield from validate_tolerations(tolerations, f"{path}.tolerations")
    if name := text(spec, "priorityClassName"):
        yield from dns_subdomain(name, f"{path}.priorityClassName")
    if spec.get("preemptionPolicy") is not None:
        yield from one_of(text(spec, "preemptionPolicy"), f"{path}.preemptionPolicy", _PREEMPTION_POLICIES)


def _names(spec: Fields, path: str) -> Iterator[FieldError]:
    if name := text(spec, "serviceAccountName"):
        yield from dns_subdomain(name, f"{path}.serviceAccountName")
    if name := text(spec, "nodeName"):
        yield from dns_subdomain(name, f"{path}.nodeName")
    deadline = number(spec, "activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        yield invalid(
            f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        )


def _host_network(spec: Fields, path: str, *, of_pod: bool) -> Iterator[FieldError]:
    if spec.get("hostNetwork") is not True:
        return
    for container, container_path in objects(spec, "containers", f"{path}.containers"):
        for port, at in objects(container, "ports", f"{container_path}.ports"):
            outside, inside = number(port, "hostPort") or 0, number(port, "containerPort") or 0
            if (of_pod or outside) and outside != inside:
                yield invalid(f"{at}.hostPort", outside, "must match `containerPort` when `hostNetwork` is true")
