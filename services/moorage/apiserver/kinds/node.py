"""`Node` (v1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.targets import UNREPORTED, Target, leaving, offered, tainted, unreported
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    LABELS,
    NONE,
    Object,
    TableColumn,
    condition_status,
    label,
    of,
    taints,
    text,
)
from moorage.apiserver.kinds.printing.kubernetes import UNKNOWN, address, node_readiness
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, conditions
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.node import Node
    from moorage_schemas.taint import Taint


_ROLE: Final = "node-role.kubernetes.io/"
_ROLE_OLDER: Final = "kubernetes.io/role"


def node_status(found: Object) -> str:
    """`Ready`, `NotReady`, `Unknown` or `Unreported`, and `SchedulingDisabled` if the node is cordoned.

    kubectl also shows `Unknown` for a node without the condition `Ready`. Here `Unknown` means that a source has fallen
    silent. Such a node is tainted, and a node that was never reported is not.
    """
    words = {"True": "Ready", "False": "NotReady", "Unknown": "Unknown"}
    ready = words.get(condition_status(found, "Ready"), UNREPORTED)
    return f"{ready},SchedulingDisabled" if at(found, "spec", "unschedulable") else ready


def zone_name(found: Object) -> str:
    """The zone of a node, `region/zone`, from its labels. The older labels count, too."""
    labels = at(found, "metadata", "labels") or {}
    parts = []
    for part in ("region", "zone"):
        older = labels.get(f"failure-domain.beta.kubernetes.io/{part}", "")
        parts.append(str(labels.get(f"topology.kubernetes.io/{part}") or older))
    return "/".join(parts)


def zone_state(found: Object) -> str:
    """The state of a zone, and whether it is stopped because every zone is fully disrupted."""
    state = str(at(found, "status", "state") or "Normal")
    return f"{state},Stopped" if at(found, "status", "stopped") else state


def _roles(found: Object) -> str:
    labels = at(found, "metadata", "labels") or {}
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)}
    roles.add(str(labels.get(_ROLE_OLDER) or ""))
    return ",".join(sorted(role for role in roles if role)) or NONE


def _zone(found: Object, related: Related) -> Section:
    name = zone_name(found)
    known = {at(one, "status", "zone"): one for one in related.list("Zone")}
    state = f" ({zone_state(known[name])})" if name in known else ""
    return Pair("Zone", f"{name if name != '/' else 'none'}{state}")


class NodeKind(Target["Node"]):
    """A node: a target that carries pods."""

    kind = "Node"
    plural = "nodes"
    model_module = "node"
    short_names = ("no",)
    container_subresources = ("proxy",)
    field_selectors: ClassVar[Mapping[str, str]] = {"spec.unschedulable": "false"}
    namespaced = False
    order = 20
    apply_order = 80
    columns = (
        TableColumn("STATUS", of(node_status)),
        TableColumn("ROLES", of(_roles)),
        AGE,
        TableColumn("TAINTS", taints(2)),
        TableColumn("ZONE", label("topology.kubernetes.io/zone"), wide=True),
        TableColumn("ALL-TAINTS", taints(None), wide=True),
        LABELS,
    )
    api_columns = (
        TableColumn("Status", of(node_readiness)),
        TableColumn("Roles", of(_roles)),
        AGE,
        TableColumn("Version", text("status", "nodeInfo", "kubeletVersion", default="")),
        TableColumn("Internal-IP", address("InternalIP"), wide=True),
        TableColumn("External-IP", address("ExternalIP"), wide=True),
        TableColumn("OS-Image", text("status", "nodeInfo", "osImage", default=UNKNOWN), wide=True),
        TableColumn("Kernel-Version", text("status", "nodeInfo", "kernelVersion", default=UNKNOWN), wide=True),
        TableColumn(
            "Container-Runtime", text("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN), wide=True
        ),
    )

    @override
    def validate(self, resource: Node, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.core import validate_taints

        return validate_taints(resource.spec.taints or [])

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.validation.nodes import validate_node

        return validate_node(document)

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.validation.nodes import validate_node_update

        return validate_node_update(before, after)

    @override
    def created(self, document: dict[str, Any], gates: FeatureGates) -> dict[str, Any]:
        from moorage.apiserver.rules.defaults import declare_external_cloud

        return declare_external_cloud(document) if gates.external_cloud else document

    @override
    def taints_of_new(self, resource: Node) -> Sequence[Taint]:
        from moorage.apiserver.rules.defaults import role_taints

        return role_taints(resource.metadata.labels, resource.spec.taints or ())

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterator[str]:
        if at(document, "spec", "externalID"):
            yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        from moorage.apiserver.kinds.pod import pod_status

        name = at(found, "metadata", "name")
        yield Pair("Roles", _roles(found))
        yield Pair("Status", node_status(found) + unreported(found))
        yield Pair("Unschedulable", str(bool(at(found, "spec", "unschedulable"))).lower())
        yield _zone(found, related)
        yield from tainted(found, related, now)
        yield conditions(found)
        yield from offered(found)
        pods = [
            [str(at(one, "metadata", "namespace")), str(at(one, "metadata", "name")), pod_status(one)]
            for one in related.list("Pod")
            if at(one, "spec", "nodeName") == name
        ]
        yield Rows(f"Pods ({len(pods)})", ["NAMESPACE", "NAME", "STATUS"], pods)
        yield leaving(found, related, now)


KIND = NodeKind()
