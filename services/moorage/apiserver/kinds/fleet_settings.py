"""Moorage's own kinds that configure a fleet (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Document, OwnKind
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, since, taints, text
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.times import format_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.meta import ObjectMeta
    from moorage_schemas.webhook_status import WebhookStatusChanged


_DELETED: Final = "deleted"


def _failover(found: Object) -> str:
    """Return whether the feature gate Failover is on: `true` or `false`."""
    return str(bool(at(found, "spec", "featureGates", "Failover"))).lower()


class MoorageConfigurationKind(OwnKind[Any]):
    """The configuration of a fleet: the settings that change decisions."""

    kind = "MoorageConfiguration"
    model_module = "configuration"
    short_names = ("mc",)
    order = 310
    apply_order = 5
    columns = (
        TableColumn("GENERATION", text("metadata", "generation")),
        TableColumn("FAILOVER", of(_failover)),
        TableColumn("NODE-RATE", text("spec", "nodeEvictionRate")),
        TableColumn("RESOURCE-RATE", text("spec", "resourceEvictionRate")),
        AGE,
    )

    @override
    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        # There is one configuration, so it has one name.
        from moorage.decide.conditions.configuration_rules import validate_configuration_name

        return super().validate_metadata(metadata) or validate_configuration_name(metadata.name)

    @override
    def admitted(self, document: Document, rules: Iterable[DedicatedNodes]) -> Document:
        # Every field is filled in, so that the object shows all that decisions rest on.
        from moorage_schemas.resources.configuration import MoorageConfigurationSpec

        plain = MoorageConfigurationSpec().model_dump(mode="json")
        spec = document.get("spec") or {}
        gates = {**plain["featureGates"], **(spec.get("featureGates") or {})}
        return {**document, "spec": {**plain, **spec, "featureGates": gates}}

    @override
    def refusal(self, name: str, change: str) -> str:
        # Without it, each process would decide by its own variables.
        return "the services decide by it; change it instead" if change == _DELETED else ""


class DedicatedNodesKind(OwnKind[Any]):
    """A rule for nodes that are reserved for a group."""

    kind = "DedicatedNodes"
    in_own_all = True
    model_module = "dedicated"
    singular = "dedicatednode"
    order = 90
    apply_order = 20
    columns = (
        TableColumn("KEY", text("spec", "key", default="dedicated")),
        TableColumn("VALUE", text("spec", "value")),
        TableColumn("EFFECT", text("spec", "effect", default="NoSchedule")),
        AGE,
    )


def _targets(found: Object) -> str:
    return ",".join(map(_target, at(found, "spec", "targets") or ())) or NONE


def _target(entry: Mapping[str, Any]) -> str:
    names = "|".join(entry.get("names") or ["*"])
    return f"{entry.get('kind')}/{names}" + (" by labels" if entry.get("selector") else "")


def _conditions(found: Object) -> str:
    return ",".join(at(found, "spec", "conditions") or ()) or NONE


def _subjects(found: Object) -> str:
    subjects = at(found, "spec", "subjects") or ()
    return ",".join("/".join(filter(None, map(one.get, ("kind", "namespace", "name")))) for one in subjects) or NONE


def _keys(found: Object) -> str:
    return ",".join(str(one.get("id")) for one in at(found, "spec", "keys") or ()) or NONE


class ProbeGrantKind(OwnKind[Any]):
    """The reports that a source may send, and the users who may use it."""

    kind = "ProbeGrant"
    model_module = "probe_grants"
    short_names = ("pg",)
    when_none = "While there is no ProbeGrant, every report counts, from every user."
    order = 315
    apply_order = 6
    columns = (
        TableColumn("SOURCE", text("spec", "source")),
        TableColumn("TARGETS", of(_targets)),
        TableColumn("CONDITIONS", of(_conditions)),
        TableColumn("WORKLOADS", text("spec", "workloads", default="false")),
        AGE,
        TableColumn("SUBJECTS", of(_subjects), wide=True),
        TableColumn("KEYS", of(_keys), wide=True),
    )


def _policy_targets(found: Object) -> str:
    targets = at(found, "spec", "targets") or {}
    return _target(targets) + "".join(f",!{name}" for name in targets.get("exclude") or ())


def _policy_conditions(found: Object) -> str:
    return ",".join(str(one.get("conditionType")) for one in at(found, "spec", "addOnConditions") or ()) or NONE


class TaintPolicyKind(OwnKind[Any]):
    """A policy that adds and removes taints by the conditions of targets of any kind."""

    kind = "TaintPolicy"
    in_own_all = True
    model_module = "taint_policies"
    short_names = ("tp",)
    order = 155
    apply_order = 60
    columns = (
        TableColumn("TARGETS", of(_policy_targets)),
        TableColumn("CONDITIONS", of(_policy_conditions)),
        TableColumn("TAINTS", taints(None)),
        AGE,
    )

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.feature_gates import ineffective_evictions
        from moorage_schemas.refs import TargetKind

        spec = document.get("spec") or {}
        if (spec.get("targets") or {}).get("kind") == TargetKind.CLUSTER.value:
            yield from ineffective_evictions(spec, gates)

    @override
    def notes(self, document: Mapping[str, Any], sent: Mapping[str, Any], records: Records) -> Iterator[str]:
        """Yield how many workloads the policy would make leave, if its taints evict."""
        from moorage.apiserver.kinds.status.policy_preview import evicts, preview, preview_text
        from moorage.decide.taints.desired.taint_policies import TaintingPolicy

        # The gateway of a simulation reads no bindings, and the simulation itself shows who leaves.
        without_bindings = not records.bindings and records.placements
        if evicts(document) and not without_bindings:
            yield preview_text(preview(TaintingPolicy.of(document), records))


def _events(found: Object) -> str:
    return ",".join(at(found, "spec", "events") or ("bindings", "evictions"))


def _state(found: Object) -> str:
    shown = {one.get("type"): one for one in at(found, "status", "conditions") or ()}
    if shown.get("Disabled", {}).get("status") == "True":
        return "Disabled"
    delivering = shown.get("Delivering", {}).get("status", "Unknown")
    state = {"True": "Delivering", "False": "Failing"}.get(delivering, "Unknown")
    return f"{state},DeletionsMissed" if "DeletionsMissed" in shown else state


class WebhookKind(OwnKind[Any]):
    """A receiver of events over HTTP."""

    kind = "Webhook"
    model_module = "webhook"
    order = 195
    apply_order = 30
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
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        found = records.webhooks.get(resource.key)
        if found is None or found.uid != resource.uid:
            return None
        times = {"lastSuccessTime": found.last_success_time, "lastFailureTime": found.last_failure_time}
        return {
            "observedGeneration": found.generation,
            "conditions": list(_webhook_conditions(found)),
            "backlog": found.backlog,
            **{name: format_time(time) for name, time in times.items() if time is not None},
        }


def _webhook_conditions(found: WebhookStatusChanged) -> Iterator[Document]:
    """Yield the conditions of a webhook, with the times of their last transitions."""
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


CONFIGURATION = MoorageConfigurationKind()
KINDS = (CONFIGURATION, DedicatedNodesKind(), ProbeGrantKind(), TaintPolicyKind(), WebhookKind())
