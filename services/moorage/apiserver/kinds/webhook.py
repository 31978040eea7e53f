"""`Webhook` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, since, text
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.times import format_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.webhook import Webhook
    from moorage_schemas.webhook_status import WebhookStatusChanged


def _events(found: Object) -> str:
    return ",".join(at(found, "spec", "events") or ("bindings", "evictions"))


def _state(found: Object) -> str:
    shown = {one.get("type"): one for one in at(found, "status", "conditions") or ()}
    if shown.get("Disabled", {}).get("status") == "True":
        return "Disabled"
    delivering = shown.get("Delivering", {}).get("status", "Unknown")
    state = {"True": "Delivering", "False": "Failing"}.get(delivering, "Unknown")
    return f"{state},DeletionsMissed" if "DeletionsMissed" in shown else state


class WebhookKind(Kind["Webhook"]):
    """A receiver of events over HTTP."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "Webhook"
    plural = "webhooks"
    model_module = "webhook"
    namespaced = False
    order = 195
    apply_order = 30
    unknown_fields = UnknownFields.REFUSED
    status_shown = True
    columns = (
        TableColumn("URL", text("spec", "url")),
        TableColumn("EVENTS", of(_events)),
        TableColumn("STATUS", of(_state)),
        AGE,
        TableColumn("BACKLOG", text("status", "backlog"), wide=True),
        TableColumn("LAST-SUCCESS", since("status", "lastSuccessTime"), wide=True),
        TableColumn("SECRET-FILE", text("spec", "secretFile"), wide=True),
    )

    @override
    def validate(self, resource: Webhook, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.moorage import validate_webhook

        return validate_webhook(resource.spec)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        found = records.webhooks.get(resource.key)
        if found is None or found.uid != resource.uid:
            return None
        times = {"lastSuccessTime": found.last_success_time, "lastFailureTime": found.last_failure_time}
        return {
            "observedGeneration": found.generation,
            "conditions": list(_conditions(found)),
            "backlog": found.backlog,
            **{name: format_time(time) for name, time in times.items() if time is not None},
        }


def _conditions(found: WebhookStatusChanged) -> Iterator[Document]:
    """The conditions of a webhook, with the times of their last transitions."""
    gone = "the receiver has answered 410 Gone; nothing is sent until spec is changed"
    if found.disabled_time is not None:
        yield _condition(found, "Delivering", "False", "Disabled", gone, found.disabled_time)
        yield _condition(found, "Disabled", "True", "ReceiverGone", gone, found.disabled_time)
    else:
        if found.failing_since is not None:
            yield _condition(found, "Delivering", "False", "AttemptsFail", found.failure, found.failing_since)
        elif found.delivering_since is not None:
            yield _condition(found, "Delivering", "True", "Taken", "", found.delivering_since)
        else:
            why = "nothing has been sent yet"
            yield _condition(found, "Delivering", "Unknown", "NothingSent", why, found.written_time)
        yield _condition(found, "Disabled", "False", "ReceiverThere", "", found.delivering_since or found.written_time)
    if found.missed_since is not None:
        why = (
            f"nothing was read since {format_time(found.missed_since)}, which is longer than Kafka keeps deletions: "
            "ends of bindings may not have been sent; compare with the API, then change spec"
        )
        yield _condition(found, "DeletionsMissed", "True", "StoodStill", why, found.missed_since)


def _condition(  # noqa: PLR0917 - the fields of a condition, in their order
    found: WebhookStatusChanged, kind: str, status: str, reason: str, message: str, since: datetime
) -> Document:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": found.generation,
        "lastTransitionTime": format_time(since),
    }


KIND = WebhookKind()
