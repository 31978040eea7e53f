"""`HorizontalPodAutoscaler` (autoscaling/v2)."""

from __future__ import annotations

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.decide.kubernetes.unstructured import at


def _reference(found: Object) -> str:
    reference = at(found, "spec", "scaleTargetRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _targets(found: Object) -> str:
    """The names of the metrics. None of them is measured."""
    metrics = at(found, "spec", "metrics")
    found_names = [_metric(one) for one in metrics if isinstance(one, dict)] if isinstance(metrics, list) else []
    return ", ".join(found_names) or "<none>"


def _metric(metric: Object) -> str:
    resource = metric.get("resource")
    if not isinstance(resource, dict):
        return "<unknown>"
    target = resource.get("target") or {}
    wanted = target.get("averageUtilization")
    return f"{resource.get('name', '')}: <unknown>/" + (f"{wanted}%" if wanted else str(target.get("averageValue", "")))


class HorizontalPodAutoscalerKind(StoredKind):
    """Between how many replicas something is to be scaled, and by what."""

    group = "autoscaling"
    versions = ("v2",)
    kind = "HorizontalPodAutoscaler"
    plural = "horizontalpodautoscalers"
    singular = "horizontalpodautoscaler"
    short_names = ("hpa",)
    order = 112
    status_shown = True
    in_all = True
    without = "nothing scales by it"
    api_columns = (
        TableColumn("REFERENCE", of(_reference)),
        TableColumn("TARGETS", of(_targets)),
        TableColumn("MinPods", text("spec", "minReplicas", default="<unset>")),
        TableColumn("MaxPods", text("spec", "maxReplicas", default="0")),
        TableColumn("REPLICAS", text("status", "currentReplicas", default="0")),
        AGE,
    )


KIND = HorizontalPodAutoscalerKind()
