"""`MoorageConfiguration` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Document, Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.configuration import MoorageConfiguration
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.meta import ObjectMeta

_DELETED: Final = "deleted"


def _failover(found: Object) -> str:
    """Whether the feature gate Failover is on: `true` or `false`."""
    return str(bool(at(found, "spec", "featureGates", "Failover"))).lower()


class MoorageConfigurationKind(Kind["MoorageConfiguration"]):
    """The configuration of a fleet: the settings that change decisions."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "MoorageConfiguration"
    plural = "moorageconfigurations"
    model_module = "configuration"
    short_names = ("mc",)
    namespaced = False
    order = 310
    apply_order = 5
    unknown_fields = UnknownFields.REFUSED
    columns = (
        TableColumn("GENERATION", text("metadata", "generation")),
        TableColumn("FAILOVER", of(_failover)),
        TableColumn("NODE-RATE", text("spec", "nodeEvictionRate")),
        TableColumn("RESOURCE-RATE", text("spec", "resourceEvictionRate")),
        AGE,
    )

    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        """See `Kind`. There is one configuration, so it has one name."""
        from moorage.decide.conditions.configuration_rules import validate_configuration_name

        return super().validate_metadata(metadata) or validate_configuration_name(metadata.name)

    @override
    def validate(self, resource: MoorageConfiguration, gates: FeatureGates) -> list[FieldError]:
        from moorage.decide.conditions.configuration_rules import validate_configuration

        return validate_configuration(resource.spec)

    def admitted(self, document: Document, rules: Iterable[DedicatedNodes]) -> Document:
        """See `Kind`. Every field is filled in, so that the object shows all that decisions rest on."""
        from moorage_schemas.resources.configuration import MoorageConfigurationSpec

        plain = MoorageConfigurationSpec().model_dump(mode="json")
        spec = document.get("spec") or {}
        gates = {**plain["featureGates"], **(spec.get("featureGates") or {})}
        return {**document, "spec": {**plain, **spec, "featureGates": gates}}

    def refusal(self, name: str, change: str) -> str:
        """See `Kind`. Without it, each process would decide by its own variables."""
        return "the services decide by it; change it instead" if change == _DELETED else ""


KIND = MoorageConfigurationKind()
