"""The dialect of each kind of target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.decide.taints.dialects.karmada import KARMADA
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage.decide.taints.dialects.ocm import OCM
from moorage_schemas.refs import TargetKind

DIALECTS: Final[Mapping[str, EffectRules]] = {
    TargetKind.NODE.value: KUBERNETES,
    TargetKind.CLUSTER.value: KARMADA,
    TargetKind.MANAGED_CLUSTER.value: OCM,
}
"""The dialects by target kind. A kind that is missing here has no effects."""
