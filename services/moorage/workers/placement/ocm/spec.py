"""An OCM placement as it is declared, and the names of its PlacementDecisions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from moorage.decide.scheduling.ocm.decisions.groups import GroupTerms
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage.decide.scheduling.ocm.terms import PlacementTerms
from moorage_schemas.envelope import event_id
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import Placement
from moorage_schemas.resources.names import DISABLED_ANNOTATION

PLACEMENT: Final = "Placement"
PLACEMENT_PREFIX: Final = f"{PLACEMENT}/"
PLACEMENT_DECISION: Final = "PlacementDecision"
DECISION_PREFIX: Final = f"{PLACEMENT_DECISION}/"


@dataclass(slots=True, eq=False)
class SelectionSpec:
    """A placement as it is declared."""

    ref: WorkloadRef
    uid: str
    version: int
    terms: PlacementTerms | None
    """None when it cannot be read. Such a placement keeps its present clusters."""

    groups: GroupTerms
    spec_key: str
    """A key of the whole spec. When the key changes, the placement is decided again, also after a restart."""

    paused: bool
    """Whether decisions are paused: the placement is disabled, or about to be deleted."""


def selection_spec_of(event: ResourceDeclared) -> SelectionSpec:
    """Return the fields of a placement that the state keeps."""
    ref = WorkloadRef(kind=PLACEMENT, namespace=event.namespace, name=event.name)
    try:
        placement = Placement.model_validate(event.object)
    except ValidationError:  # the gateway accepts only readable objects
        return SelectionSpec(ref, event.uid, event.version, None, GroupTerms(), "", paused=True)
    metadata, spec = placement.metadata, placement.spec
    disabled = (metadata.annotations or {}).get(DISABLED_ANNOTATION) == "true"
    return SelectionSpec(
        ref=ref,
        uid=event.uid,
        version=event.version,
        terms=terms_of(spec),
        groups=GroupTerms.of(spec.decision_strategy),
        spec_key=event_id(json.dumps(event.object.get("spec"), sort_keys=True)),
        paused=disabled or metadata.deletion_timestamp is not None,
    )


def page_number(name: str) -> int:
    """Return the number of a PlacementDecision among those of its placement, from its name or key."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
