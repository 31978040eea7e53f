"""Kinds of Kubernetes that people declare together with their work, so that a whole directory of manifests applies.

They are stored and shown, with the structure that upstream gives them, and Moorage decides nothing by them. A kind is
one class here, and one name in `ops/kubernetes-schema/native.go`. A kind that has an effect in Kubernetes but none here
warns its writers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Cell, Object, TableColumn, count, of, text
from moorage.apiserver.kinds.printing.kubernetes import (
    CREATED,
    access_modes,
    external_ip,
    first_of,
    labels_text,
    number,
    of_containers,
    selector_text,
    service_ports,
)
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section
from moorage.apiserver.kinds.status import built_in
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared


class StoredKind(Untyped):
    """A kind that is stored and shown, and nothing else."""

    namespaced = True
    without: ClassVar[str] = ""
    """An effect that its writers might expect and that is missing: `nothing scales by it`. Empty if the effect is a
    deployer's task."""

    def __init_subclass__(cls) -> None:
        """Give the columns of the command line those of the API, in capitals."""
        super().__init_subclass__()
        cls.columns = tuple(
            column._replace(title=column.title.upper(), cell=_filled(column.cell)) for column in cls.api_columns
        )

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        if self.without:
            yield f"a {self.kind} is stored and shown, and {self.without}"


def _filled(cell: Cell) -> Cell:
    """Return a cell that shows `<none>` where there is nothing."""
    return lambda found, now: cell(found, now) or NONE


def _data_keys(found: Object) -> str:
    return str(len(at(found, "data") or ()) + len(at(found, "binaryData") or ()))


class ConfigMapKind(Untyped):
    """A config map. It is stored, and propagation policies can claim it."""

    kind = "ConfigMap"
    short_names = ("cm",)
    namespaced = True
    order = 100
    has_generation = False
    columns = (TableColumn("DATA", count("data")), AGE)
    api_columns = (TableColumn("Data", of(_data_keys), holds="integer"), AGE)


def _controller(found: Object) -> str:
    owners = at(found, "metadata", "ownerReferences") or []
    named = next((one for one in owners if one.get("controller")), None)
    return f"{str(named['kind']).lower()}.apps/{named['name']}" if named is not None else NONE


class ControllerRevisionKind(Untyped):
    """A template that a stateful set or a daemon set has had, with its number."""

    group = "apps"
    kind = "ControllerRevision"
    namespaced = True
    has_generation = False
    order = 90
    columns = (TableColumn("CONTROLLER", of(_controller)), TableColumn("REVISION", text("revision")), AGE)

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        # The data of a revision never changes.
        return {**wanted, "data": shown.get("data")}


_JOB_SELECTOR: Final = ("spec", "jobTemplate", "spec", "selector")
_JOB_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template")


class CronJobKind(StoredKind):
    """Jobs that are to be made at certain times."""

    group = "batch"
    kind = "CronJob"
    short_names = ("cj",)
    order = 82
    status_shown = True
    in_all = True
    without = "no Job is made by it"
    api_columns = (
        TableColumn("SCHEDULE", text("spec", "schedule", default="")),
        TableColumn("TIMEZONE", text("spec", "timeZone")),
        TableColumn("SUSPEND", of(lambda found: str(bool(at(found, "spec", "suspend")))), type="boolean"),
        TableColumn("ACTIVE", count("status", "active"), type="integer"),
        TableColumn("LAST SCHEDULE", text("status", "lastScheduleTime")),
        AGE,
        of_containers("Containers", "name", *_JOB_TEMPLATE),
        of_containers("Images", "image", *_JOB_TEMPLATE),
        TableColumn("Selector", of(lambda found: selector_text(at(found, *_JOB_SELECTOR))), wide=True),
    )


def _subset_addresses(found: Object) -> str:
    subsets = found.get("subsets")
    return first_of(list(_each_address(subsets))) if isinstance(subsets, list) and subsets else NONE


def _each_address(subsets: list[Any]) -> Iterator[str]:
    for subset in subsets:
        addresses = [str(one.get("ip", "")) for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        hosts = [f"[{one}]" if ":" in one else one for one in addresses]
        yield from (f"{host}:{port.get('port', 0)}" for port in ports for host in hosts)
        if not ports:
            yield from addresses


class EndpointsKind(StoredKind):
    """The addresses of a service, in the form that came before the endpoint slice. Moorage routes no traffic."""

    kind = "Endpoints"
    plural = "endpoints"
    short_names = ("ep",)
    order = 111
    has_generation = False
    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    api_columns = (TableColumn("Endpoints", of(_subset_addresses)), AGE)


_OLD_TOPOLOGY: Final = "deprecatedTopology"
_UNSET: Final = "<unset>"


def _slice_ports(found: Object) -> str:
    ports = found.get("ports")
    named = [_slice_port(one) for one in ports] if isinstance(ports, list) else []
    return first_of(named) or _UNSET


def _slice_port(port: Mapping[str, Any]) -> str:
    number = port.get("port")
    if number is not None:
        return str(number)
    return str(port.get("name", ""))


def _slice_addresses(found: Object) -> str:
    endpoints = found.get("endpoints")
    parts = endpoints if isinstance(endpoints, list) else []
    return first_of([str(one) for part in parts for one in part.get("addresses") or ()]) or _UNSET


class EndpointSliceKind(StoredKind):
    """A part of the addresses of a service. Moorage routes no traffic."""

    group = "discovery.k8s.io"
    kind = "EndpointSlice"
    order = 350
    api_columns = (
        TableColumn("AddressType", text("addressType", default="")),
        TableColumn("Ports", of(_slice_ports)),
        TableColumn("Endpoints", of(_slice_addresses)),
        AGE,
    )

    @override
    def declared(self, document: dict[str, Any]) -> dict[str, Any]:
        # Nodes and zones of an older version of the kind are dropped.
        found = super().declared(document)
        endpoints = found.get("endpoints")
        if not isinstance(endpoints, list):
            return found
        return {**found, "endpoints": [{key: one[key] for key in one if key != _OLD_TOPOLOGY} for one in endpoints]}


def _scaled(found: Object) -> str:
    reference = at(found, "spec", "scaleTargetRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _metrics(found: Object) -> str:
    """Return the names of the metrics. None of them is measured."""
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
    short_names = ("hpa",)
    order = 112
    status_shown = True
    in_all = True
    without = "nothing scales by it"
    api_columns = (
        TableColumn("REFERENCE", of(_scaled)),
        TableColumn("TARGETS", of(_metrics)),
        TableColumn("MinPods", text("spec", "minReplicas", default="<unset>")),
        TableColumn("MaxPods", text("spec", "maxReplicas", default="0")),
        TableColumn("REPLICAS", text("status", "currentReplicas", default="0")),
        AGE,
    )


def _ingress_hosts(found: Object) -> str:
    rules = at(found, "spec", "rules")
    hosts = (
        [str(one["host"]) for one in rules if isinstance(one, dict) and one.get("host")]
        if isinstance(rules, list)
        else []
    )
    return first_of(hosts) or "*"


def _ingress_addresses(found: Object) -> str:
    entries = at(found, "status", "loadBalancer", "ingress")
    known = (
        [one.get("ip") or one.get("hostname") for one in entries if isinstance(one, dict)]
        if isinstance(entries, list)
        else []
    )
    return ",".join(str(one) for one in known if one)


class IngressKind(StoredKind):
    """Which requests from outside go to which service. Those who run the work follow it."""

    group = "networking.k8s.io"
    kind = "Ingress"
    short_names = ("ing",)
    order = 114
    status_shown = True
    api_columns = (
        TableColumn("CLASS", text("spec", "ingressClassName")),
        TableColumn("HOSTS", of(_ingress_hosts)),
        TableColumn("ADDRESS", of(_ingress_addresses)),
        TableColumn("PORTS", of(lambda found: "80, 443" if at(found, "spec", "tls") else "80")),
        AGE,
    )


class LimitRangeKind(StoredKind):
    """How much single pods of a namespace may use."""

    kind = "LimitRange"
    short_names = ("limits",)
    order = 320
    created_by_update = True
    has_generation = False
    without = "nothing is limited by it"
    api_columns = (CREATED,)


class NetworkPolicyKind(StoredKind):
    """Which pods may speak with which. Those who run the work enforce it."""

    group = "networking.k8s.io"
    kind = "NetworkPolicy"
    short_names = ("netpol",)
    order = 116
    api_columns = (TableColumn("Pod-Selector", of(lambda found: selector_text(at(found, "spec", "podSelector")))), AGE)


def _claim_of_volume(found: Object) -> str:
    reference = at(found, "spec", "claimRef")
    known = isinstance(reference, Mapping)
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if known else ""


def _phase_of_volume(found: Object) -> str:
    if at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(found, "status", "phase") or "")


class PersistentVolumeKind(StoredKind):
    """Storage that a claim may be bound to. Those who run the work provide it."""

    kind = "PersistentVolume"
    mirrorable = True
    short_names = ("pv",)
    namespaced = False
    order = 107
    has_generation = False
    status_shown = True
    api_columns = (
        TableColumn("Capacity", text("spec", "capacity", "storage", default="0")),
        TableColumn("Access Modes", of(lambda found: access_modes(at(found, "spec", "accessModes")))),
        TableColumn("Reclaim Policy", text("spec", "persistentVolumeReclaimPolicy", default="Retain")),
        TableColumn("Status", of(_phase_of_volume)),
        TableColumn("Claim", of(_claim_of_volume)),
        TableColumn("StorageClass", text("spec", "storageClassName", default="")),
        TableColumn("VolumeAttributesClass", text("spec", "volumeAttributesClassName", default="<unset>")),
        TableColumn("Reason", text("status", "reason", default="")),
        AGE,
        TableColumn("VolumeMode", text("spec", "volumeMode", default="Filesystem"), wide=True),
    )

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        if resource.mirrored is not None and (seen := resource.object.get("status")):
            found: Document = seen
            return found
        # As of a new volume on an API server: no controller here makes it available to claims.
        since = resource.object["metadata"].get("creationTimestamp")
        return {"phase": "Pending", **({"lastPhaseTransitionTime": since} if since else {})}


class PersistentVolumeClaimKind(StoredKind):
    """Storage that a pod wants. Those who run the work provide it."""

    kind = "PersistentVolumeClaim"
    mirrorable = True
    short_names = ("pvc",)
    order = 106
    deleted_is_returned = True
    has_generation = False
    status_shown = True
    api_columns = (
        TableColumn("STATUS", text("status", "phase", default="Pending")),
        TableColumn("VOLUME", text("spec", "volumeName", default="")),
        TableColumn("CAPACITY", text("status", "capacity", "storage", default="")),
        # Those of the bound volume. An unbound claim has none.
        TableColumn("ACCESS MODES", of(lambda found: access_modes(at(found, "status", "accessModes")))),
        TableColumn("StorageClass", text("spec", "storageClassName", default="")),
        TableColumn("VolumeAttributesClass", text("spec", "volumeAttributesClassName", default="<unset>")),
        AGE,
        TableColumn("VolumeMode", text("spec", "volumeMode", default="Filesystem"), wide=True),
    )

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        if resource.mirrored is not None and (seen := resource.object.get("status")):
            found: Document = seen
            return found
        # As of a new claim on an API server: no controller here binds it.
        return {"phase": "Pending"}


def _quota(found: Object, *, limits: bool) -> str:
    """Return the limited resources with their use, which is not counted."""
    hard = at(found, "status", "hard")
    used = at(found, "status", "used") or {}
    names = sorted(one for one in hard if one.startswith("limits") is limits) if isinstance(hard, dict) else []
    return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)


class ResourceQuotaKind(StoredKind):
    """How much all of a namespace may use."""

    kind = "ResourceQuota"
    short_names = ("quota",)
    order = 322
    deleted_is_returned = True
    has_generation = False
    status_shown = True
    without = "nothing is limited by it"
    api_columns = (
        TableColumn("REQUEST", of(lambda found: _quota(found, limits=False))),
        TableColumn("LIMIT", of(lambda found: _quota(found, limits=True))),
        AGE,
    )


class ServiceKind(Untyped):
    """A service. It is stored, and propagation policies can claim it."""

    kind = "Service"
    short_names = ("svc",)
    namespaced = True
    created_by_update = True
    deleted_is_returned = True
    order = 110
    categories = ("all",)
    has_generation = False
    status_shown = True
    label_names = True
    container_subresources = ("proxy",)
    field_selectors: ClassVar[Mapping[str, str]] = {"spec.clusterIP": "", "spec.type": "ClusterIP"}
    columns = (TableColumn("TYPE", text("spec", "type", default="ClusterIP")), AGE)
    api_columns = (
        TableColumn("Type", text("spec", "type", default="ClusterIP")),
        TableColumn("Cluster-IP", text("spec", "clusterIP")),
        TableColumn("External-IP", of(external_ip)),
        TableColumn("Port(s)", of(service_ports)),
        AGE,
        TableColumn("Selector", of(lambda found: labels_text(at(found, "spec", "selector"))), wide=True),
    )


class StorageClassKind(StoredKind):
    """A kind of storage. Those who run the work provide it."""

    group = "storage.k8s.io"
    kind = "StorageClass"
    short_names = ("sc",)
    namespaced = False
    order = 340
    deleted_is_returned = True
    has_generation = False
    api_columns = (
        TableColumn("PROVISIONER", text("provisioner", default="")),
        TableColumn("ReclaimPolicy", text("reclaimPolicy", default="Delete")),
        TableColumn("VolumeBindingMode", text("volumeBindingMode", default="Immediate")),
        TableColumn(
            "AllowVolumeExpansion",
            of(lambda found: str(bool(found.get("allowVolumeExpansion"))).lower()),
            holds="boolean",
        ),
        AGE,
    )


CONTROLLER_REVISION = ControllerRevisionKind()


_OPAQUE: Final = "Opaque"


class SecretKind(StoredKind):
    """A secret. Topics are not encrypted, and readers of the gateway have no identities yet."""

    kind = "Secret"
    order = 104
    has_generation = False
    field_selectors: ClassVar[Mapping[str, str]] = {"type": ""}
    without = "every user who reaches the gateway or its topics can read it"
    api_columns = (
        TableColumn("TYPE", text("type", default=_OPAQUE)),
        TableColumn("DATA", count("data"), holds="integer"),
        AGE,
    )

    @override
    def stored(self, document: Document) -> Document:
        from moorage.apiserver.rules.field_defaults import with_texts_as_data

        return with_texts_as_data(super().stored(document))

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.config_data import validate_immutable, validate_secret
        from moorage.decide.kubernetes.field_errors import invalid

        kind, found = after.get("type") or _OPAQUE, []
        if kind != (before.get("type") or _OPAQUE):
            found.append(invalid("type", kind, "field is immutable"))
        return [*found, *validate_immutable(before, after, "data"), *validate_secret(after)]

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        # The sizes of the values are shown, and not the values.
        yield Pair("Type", found.get("type") or _OPAQUE)
        rows = [[name, f"{_size(value)} bytes"] for name, value in sorted((at(found, "data") or {}).items())]
        yield Rows("Data", ["KEY", "SIZE"], rows)


def _size(value: Any) -> int:
    try:
        return len(base64.b64decode(str(value)))
    except (binascii.Error, ValueError):
        return len(str(value))


_SYSTEM: Final[Mapping[str, str]] = {
    built_in.CLUSTER_CRITICAL: "Pods without which the cluster does not work, on whichever node.",
    built_in.NODE_CRITICAL: "Pods without which their node does not work.",
}
"""The description of the classes that Kubernetes has by itself."""


class PriorityClassKind(StoredKind):
    """A name of a priority."""

    group = "scheduling.k8s.io"
    kind = built_in.PRIORITY_CLASS
    mirrorable = True
    short_names = ("pc",)
    namespaced = False
    order = 330
    built_in = tuple(built_in.SYSTEM_PRIORITIES)
    built_in_kept = "this is a system priority class and cannot be deleted"
    without = "nothing is placed earlier or later by it"
    api_columns = (
        number("VALUE", "value"),
        TableColumn(
            "GLOBAL-DEFAULT",
            of(lambda found: str(bool(found.get("globalDefault"))).lower()),
            type="boolean",
            spelled="Global-Default",
        ),
        AGE,
        TableColumn("PreemptionPolicy", text("preemptionPolicy", default="PreemptLowerPriority")),
    )

    @override
    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        from moorage.apiserver.kinds.status.namespaces import begun
        from moorage.decide.kubernetes.hashes import uid_of

        name, since = object_id.name, begun(records)
        metadata = {"name": name, "uid": uid_of(self.kind, name), "generation": 1}
        return {
            "apiVersion": self.api_versions[0],
            "kind": self.kind,
            "metadata": {**metadata, **({"creationTimestamp": since} if since else {})},
            "value": built_in.SYSTEM_PRIORITIES[name],
            "description": _SYSTEM[name],
            "preemptionPolicy": "PreemptLowerPriority",
        }


TOKEN: Final = "token"  # noqa: S105 - the name of a subresource
"""The subresource that gives out tokens."""


class ServiceAccountKind(Untyped):
    """A service account: the identity of a program. Its tokens are given out by its subresource `token`."""

    kind = built_in.SERVICE_ACCOUNT
    short_names = ("sa",)
    namespaced = True
    deleted_is_returned = True
    has_generation = False
    order = 102
    columns = (TableColumn("SECRETS", count("secrets")), AGE)
    api_columns = (AGE,)
    in_each_namespace = (built_in.DEFAULT_ACCOUNT,)
    built_in_kept = "every namespace has this service account"
    own_subresources = (TOKEN,)

    @override
    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        # It is as old as its namespace, and another one in another namespace of the same name.
        from moorage.apiserver.kinds.status.namespaces import identity
        from moorage.decide.kubernetes.hashes import uid_of

        of = identity(object_id.namespace, records)
        metadata = {**of, "name": object_id.name, "namespace": object_id.namespace, "uid": uid_of(self.kind, of["uid"])}
        return {"apiVersion": "v1", "kind": self.kind, "metadata": metadata}


SECRET = SecretKind()
KINDS = (
    ConfigMapKind(),
    CONTROLLER_REVISION,
    CronJobKind(),
    EndpointsKind(),
    EndpointSliceKind(),
    HorizontalPodAutoscalerKind(),
    IngressKind(),
    LimitRangeKind(),
    NetworkPolicyKind(),
    PersistentVolumeKind(),
    PersistentVolumeClaimKind(),
    PriorityClassKind(),
    ResourceQuotaKind(),
    SECRET,
    ServiceAccountKind(),
    ServiceKind(),
    StorageClassKind(),
)
