"""The `moorage eval` operations about pods: `pod_qos`, `pod_requests`, `pod_tolerations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from moorage.conformance.request_fields import OBJECT, Answer, RequestError, RequestFields
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.pod_defaults import admit_pod
from moorage.decide.kubernetes.pod_resources import pod_requests, qos_class
from moorage.decide.kubernetes.quantities import QuantityError
from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resources.pod import PodSpec

_Object = Mapping[str, Any]


def pod_qos(fields: RequestFields) -> Answer:
    """Return the quality of service class of a pod."""
    pod = _pod(fields)
    try:
        return {"qosClass": qos_class(part(pod, "spec"))}
    except QuantityError as error:
        raise _refused(error) from error


def requests(fields: RequestFields) -> Answer:
    """Return the resources that a pod takes of its node. If it is `running`, its status also counts."""
    pod = _pod(fields)
    status = part(pod, "status") if fields.flag("running", default=False) else None
    try:
        found = pod_requests(part(pod, "spec"), status)
    except QuantityError as error:
        raise _refused(error) from error
    return {"requests": {name: amount for name, amount in sorted(found.items()) if amount}}


def tolerations(fields: RequestFields) -> Answer:
    """Return the tolerations of a pod after admission."""
    pod = _pod(fields)
    try:
        admitted = admit_pod(dict(pod), daemon=fields.flag("daemon", default=False))
    except QuantityError as error:
        raise _refused(error) from error
    return {"tolerations": admitted["spec"]["tolerations"]}


def _pod(fields: RequestFields) -> _Object:
    fields.need("pod")
    pod = fields.inner("pod", OBJECT).values
    try:
        PodSpec.model_validate(pod.get("spec") or {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(["pod.spec", *(str(step) for step in first["loc"])])
        raise RequestError(FieldError(path, ErrorKind.TYPE_INVALID, first["input"], first["msg"])) from error
    return pod


def _refused(error: QuantityError) -> RequestError:
    return RequestError(FieldError(f"pod.{error.field}", ErrorKind.INVALID, error.value, error.rule))
