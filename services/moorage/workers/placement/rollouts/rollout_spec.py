"""A rollout as it is declared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from moorage.decide.rollouts.declared_strategy import terms_of
from moorage.decide.rollouts.strategy import RolloutTerms, StrategyError
from moorage_schemas.envelope import event_id
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.rollouts import Rollout

ROLLOUT: Final = "Rollout"
ROLLOUT_PREFIX: Final = f"{ROLLOUT}/"


@dataclass(frozen=True, slots=True)
class DeclaredRollout:
    """The fields of a rollout that the view keeps."""

    ref: WorkloadRef
    uid: str
    declared_version: int
    """The version of the resource."""

    placement: WorkloadRef
    version: str
    terms: RolloutTerms
    labels: tuple[tuple[str, str], ...]
    spec_key: str
    """A key of the whole spec."""


def declared_rollout_of(event: ResourceDeclared) -> DeclaredRollout | None:
    """Read a rollout. None if it cannot be read, or is about to be deleted: then it keeps its clusters."""
    try:
        rollout = Rollout.model_validate(event.object)
        terms = terms_of(rollout.spec.strategy)
    except (ValidationError, StrategyError):  # the gateway accepts only readable objects
        return None
    spec = rollout.spec
    if rollout.metadata.deletion_timestamp is not None or not spec.placement_ref.name:
        return None
    return DeclaredRollout(
        ref=WorkloadRef(kind=ROLLOUT, namespace=event.namespace, name=event.name),
        uid=event.uid,
        declared_version=event.version,
        placement=WorkloadRef(kind="Placement", namespace=event.namespace, name=spec.placement_ref.name),
        version=spec.version,
        terms=terms,
        labels=tuple(sorted((rollout.metadata.labels or {}).items())),
        spec_key=event_id(json.dumps(event.object.get("spec"), sort_keys=True)),
    )
