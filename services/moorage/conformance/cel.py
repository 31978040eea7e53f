"""The `moorage eval` operation `cel`: for which managed clusters a CEL expression is true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.decide.kubernetes.cel.expressions import Evaluation, ExpressionError, compiled
from moorage.decide.kubernetes.field_errors import invalid
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts

RULE: Final = "must be an object"


def cel(fields: RequestFields) -> Answer:
    """Compile an expression, and evaluate it for clusters.

    The answer has the error of the compiler (`compile`), or the names of the clusters for which the expression is true
    (`yes`), and why it failed for others (`errs`).
    """
    fields.need("expression")
    clusters = [_facts(one, f"clusters[{place}]") for place, one in enumerate(fields.values.get("clusters") or ())]
    scores = _scores(fields.values.get("scores") or {})
    try:
        expression = compiled(fields.text("expression"))
    except ExpressionError as error:
        return {"compile": str(error), "asUpstream": error.as_upstream}
    within = Evaluation(lambda cluster, resource: scores.get(cluster, {}).get(resource))
    results = [(facts.name, expression.evaluate(facts.document, within)) for facts in clusters]
    return {
        "yes": [name for name, result in results if result.value],
        "errs": {name: result.error for name, result in results if result.error},
    }


def _facts(document: Any, path: str) -> ManagedClusterFacts:
    if not isinstance(document, Mapping):
        raise RequestError(invalid(path, document, RULE))
    try:
        return ManagedClusterFacts.of(document)
    except ValidationError as error:
        raise RequestError(invalid(path, "", str(error))) from None


def _scores(given: Any) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return the scores by cluster, AddOnPlacementScore and name."""
    levels = [given] if isinstance(given, Mapping) else []
    for _ in range(2):
        levels = [inner for one in levels for inner in one.values()]
        if not all(isinstance(one, Mapping) for one in levels):
            raise RequestError(invalid("scores", given, RULE))
    found: Mapping[str, Mapping[str, Mapping[str, int]]] = given
    return found
