"""`Webhook` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import Kind, UnknownFields
from moorage.kinds.printing.columns import AGE, Object, TableColumn, of, text

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.webhook import Webhook


def _events(found: Object) -> str:
    return ",".join(at(found, "spec", "events") or ("bindings", "evictions"))


class WebhookKind(Kind["Webhook"]):
    """A receiver of events over HTTP."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "Webhook"
    plural = "webhooks"
    singular = "webhook"
    namespaced = False
    order = 195
    apply_order = 30
    unknown_fields = UnknownFields.REFUSED
    columns = (
        TableColumn("URL", text("spec", "url")),
        TableColumn("EVENTS", of(_events)),
        AGE,
        TableColumn("SECRET-FILE", text("spec", "secretFile"), wide=True),
    )

    @property
    def model(self) -> type[Webhook]:
        """See `Kind`."""
        from moorage_schemas.resources.webhook import Webhook

        return Webhook

    def validate(self, resource: Webhook, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.webhooks import validate_webhook

        return validate_webhook(resource.spec)


KIND = WebhookKind()
