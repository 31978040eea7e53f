"""The roles and bindings that every fleet has.

Those of Kubernetes are the ones that mean something here, with Kubernetes' rules, without the groups that are not
served (`extensions`, `resource.k8s.io`). Those that begin with `moorage:` are Moorage's own.

Source: `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moorage.core.authorization.attributes import (
    ACCOUNTS,
    AUTHENTICATED,
    CLUSTERS,
    DECISIONS,
    EXPLANATIONS,
    MASTERS,
    MIRRORS,
    OWN_GROUP,
    REPORTS,
    SIMULATIONS,
    UNAUTHENTICATED,
)
from moorage.core.authorization.bindings import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP
from moorage.core.authorization.cluster_sets import set_roles
from moorage.core.authorization.reconciliation import AUTOUPDATE
from moorage_schemas.resources.managed import DEFAULT_SET, GLOBAL_SET

Document = dict[str, Any]
Rule = dict[str, list[str]]

_API_VERSION: Final = f"{GROUP}/v1"
_METADATA: Final = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {AUTOUPDATE: "true"},
}
_AGGREGATE_TO: Final = "rbac.authorization.k8s.io/aggregate-to-"
_OWN_AGGREGATE_TO: Final = "rbac.moorage.io/aggregate-to-"
_VIEW, _EDIT, _ADMIN = (f"{_AGGREGATE_TO}{name}" for name in ("view", "edit", "admin"))
_FLEET_VIEW, _OPERATE = (f"{_OWN_AGGREGATE_TO}{name}" for name in ("viewer", "operator"))

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_CHANGE: Final = ("patch", "update")
_ALL: Final = ("*",)
_OCM: Final = "cluster.open-cluster-management.io"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_VERSION: Final = ("/version", "/version/")


def _rule(verbs: Sequence[str], resources: Sequence[str], *groups: str) -> Rule:
    return {"verbs": list(verbs), "apiGroups": list(groups or ("",)), "resources": list(resources)}


def _paths(*paths: str, verbs: Sequence[str] = ("get",)) -> Rule:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


def _role(name: str, *rules: Rule, labels: Sequence[str] = (), aggregates: Sequence[str] = ()) -> Document:
    """A ClusterRole: with rules, or with those of the roles that have one of some labels."""
    document: Document = {
        "apiVersion": _API_VERSION,
        "kind": CLUSTER_ROLE,
        "metadata": {
            "name": name,
            "labels": {**_METADATA["labels"], **dict.fromkeys(labels, "true")},
            "annotations": dict(_METADATA["annotations"]),
        },
        "rules": list(rules),
    }
    if aggregates:
        document["aggregationRule"] = {
            "clusterRoleSelectors": [{"matchLabels": {label: "true"}} for label in aggregates]
        }
    return document


def _binding(role: str, *groups: str) -> Document:
    """A ClusterRoleBinding with the name of its role."""
    return {
        "apiVersion": _API_VERSION,
        "kind": CLUSTER_ROLE_BINDING,
        "metadata": {"name": role, **{field: dict(values) for field, values in _METADATA.items()}},
        "roleRef": {"apiGroup": GROUP, "kind": CLUSTER_ROLE, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }


_KUBERNETES: Final = (
    _role("cluster-admin", _rule(_ALL, _ALL, "*"), _paths("*", verbs=_ALL)),
    _role(
        "system:discovery",
        _paths(
            "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", *_VERSION
        ),
    ),
    _role(
        "system:monitoring",
        _paths(
            "/flagz",
            *(path for name in _HEALTH for path in (name, f"{name}/*")),
            "/metrics",
            "/metrics/slis",
            "/statusz",
        ),
        _rule(("get",), ("nodes/metrics",)),
    ),
    _role(
        "system:basic-user",
        _rule(("create",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), "authorization.k8s.io"),
        _rule(("create",), ("selfsubjectreviews",), "authentication.k8s.io"),
    ),
    _role("system:public-info-viewer", _paths(*_HEALTH, *_VERSION)),
    _role(
        "system:auth-delegator",
        _rule(("create",), ("tokenreviews",), "authentication.k8s.io"),
        _rule(("create",), ("subjectaccessreviews",), "authorization.k8s.io"),
    ),
    _role(
        "system:service-account-issuer-discovery",
        _paths(
            "/.well-known/openid-configuration",
            "/.well-known/openid-configuration/",
            "/openid/v1/jwks",
            "/openid/v1/jwks/",
        ),
    ),
    _role("admin", aggregates=(_ADMIN,)),
    _role("edit", labels=(_ADMIN,), aggregates=(_EDIT,)),
    _role("view", labels=(_EDIT,), aggregates=(_VIEW,)),
    _role(
        "system:aggregate-to-admin",
        _rule(("create",), ("localsubjectaccessreviews",), "authorization.k8s.io"),
        _rule(
            ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
            ("rolebindings", "roles"),
            GROUP,
        ),
        labels=(_ADMIN,),
    ),
    _role(
        "system:aggregate-to-edit",
        _rule(
            _READ,
            ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
        ),
        _rule(("impersonate",), ("serviceaccounts",)),
        _rule(_WRITE, ("pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy")),
        _rule(("create",), ("pods/eviction",)),
        _rule(
            _WRITE,
            (
                "configmaps",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ),
        ),
        _rule(("create",), ("serviceaccounts/token",)),
        _rule(_WRITE, ("events",), "", "events.k8s.io"),
        _rule(
            _WRITE,
            (
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ),
            "apps",
        ),
        _rule(_WRITE, ("horizontalpodautoscalers",), "autoscaling"),
        _rule(_WRITE, ("cronjobs", "jobs"), "batch"),
        _rule(_WRITE, ("poddisruptionbudgets",), "policy"),
        _rule(_WRITE, ("ingresses", "networkpolicies"), "networking.k8s.io"),
        _rule(
            ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
            ("leases",),
            "coordination.k8s.io",
        ),
        labels=(_EDIT,),
    ),
    _role(
        "system:aggregate-to-view",
        _rule(
            _READ,
            (
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "serviceaccounts",
                "services",
                "services/status",
            ),
        ),
        _rule(
            _READ,
            (
                "bindings",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "replicationcontrollers/status",
                "resourcequotas",
                "resourcequotas/status",
            ),
        ),
        _rule(_READ, ("namespaces",)),
        _rule(_READ, ("events",), "", "events.k8s.io"),
        _rule(_READ, ("endpointslices",), "discovery.k8s.io"),
        _rule(
            _READ,
            (
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ),
            "apps",
        ),
        _rule(_READ, ("horizontalpodautoscalers", "horizontalpodautoscalers/status"), "autoscaling"),
        _rule(_READ, ("cronjobs", "cronjobs/status", "jobs", "jobs/status"), "batch"),
        _rule(_READ, ("poddisruptionbudgets", "poddisruptionbudgets/status"), "policy"),
        _rule(_READ, ("ingresses", "ingresses/status", "networkpolicies"), "networking.k8s.io"),
        labels=(_VIEW,),
    ),
)

_DECISIONS: Final = ("bindings", DECISIONS, "evictions", EXPLANATIONS, "workloadplacements")
"""What follows from Moorage's decisions about the workloads of a namespace."""

_OWN_ROLES: Final = (
    _role(
        "moorage:aggregate-to-view",
        _rule(_READ, _DECISIONS, OWN_GROUP),
        _rule(
            _READ,
            (
                "addonplacementscores",
                "addonplacementscores/status",
                "managedclustersetbindings",
                "managedclustersetbindings/status",
                "placementdecisions",
                "placements",
                "placements/status",
            ),
            _OCM,
        ),
        _rule(
            _READ,
            ("managedclusteraddons", "managedclusteraddons/status"),
            "addon.open-cluster-management.io",
        ),
        _rule(_READ, ("propagationpolicies",), "policy.karmada.io"),
        _rule(_READ, ("resourcebindings",), "work.karmada.io"),
        _rule(_READ, ("machinesets", "machinesets/scale", "machinesets/status"), "machine.openshift.io"),
        labels=(_VIEW,),
    ),
    _role(
        "moorage:aggregate-to-edit",
        _rule(_WRITE, ("managedclustersetbindings", "placements"), _OCM),
        _rule(_WRITE, ("propagationpolicies",), "policy.karmada.io"),
        labels=(_EDIT,),
    ),
    _role(
        "moorage:aggregate-to-viewer",
        _rule(_READ, ("nodes", "nodes/status", "persistentvolumes", "persistentvolumes/status")),
        _rule(_READ, ("clusters", "clusters/status"), "cluster.karmada.io"),
        _rule(_READ, ("clusterpropagationpolicies", "clustertaintpolicies"), "policy.karmada.io"),
        _rule(_READ, ("clusterresourcebindings",), "work.karmada.io"),
        _rule(
            _READ,
            ("managedclusters", "managedclusters/status", "managedclustersets", "managedclustersets/status"),
            _OCM,
        ),
        _rule(
            _READ,
            (
                "budgets",
                CLUSTERS,
                "conditions",
                "dedicatednodes",
                "evictionbudgets",
                "evictionbudgets/status",
                "evictionpauses",
                "evictionpauses/status",
                "moorageconfigurations",
                "probegrants",
                "taints",
                "timers",
                "zones",
            ),
            OWN_GROUP,
        ),
        _rule(_READ, ("priorityclasses",), "scheduling.k8s.io"),
        _rule(_READ, ("storageclasses",), "storage.k8s.io"),
        _rule(_READ, ("customresourcedefinitions",), "apiextensions.k8s.io"),
        labels=(_FLEET_VIEW,),
    ),
    _role("moorage:viewer", aggregates=(_FLEET_VIEW, _VIEW)),
    _role(
        "moorage:aggregate-to-operator",
        _rule(_CHANGE, ("nodes",)),
        _rule(_CHANGE, ("clusters",), "cluster.karmada.io"),
        _rule(_CHANGE, ("managedclusters",), _OCM),
        _rule(("delete",), ("pods",)),
        _rule(("create",), ("pods/eviction",)),
        _rule(_WRITE, ("poddisruptionbudgets",), "policy"),
        _rule(_WRITE, ("clustertaintpolicies",), "policy.karmada.io"),
        _rule(_WRITE, ("dedicatednodes", "evictionbudgets", "evictionpauses"), OWN_GROUP),
        _rule(_CHANGE, ("moorageconfigurations",), OWN_GROUP),
        _rule(("update",), (CLUSTERS,), OWN_GROUP),
        _rule(("create",), (REPORTS, f"{REPORTS}/any"), OWN_GROUP),
        _rule(_READ, ("deadletters",), OWN_GROUP),
        _rule(("create",), ("deadletters/replay",), OWN_GROUP),
        _rule(("create",), (SIMULATIONS,), OWN_GROUP),
        _rule(_CHANGE, ("machinesets", "machinesets/scale"), "machine.openshift.io"),
        labels=(_OPERATE,),
    ),
    _role("moorage:operator", aggregates=(_OPERATE, _FLEET_VIEW, _VIEW)),
    _role("moorage:probe", _rule(("create",), (REPORTS,), OWN_GROUP)),
    _role(
        "moorage:bridge",
        _rule(("update",), (MIRRORS,), OWN_GROUP),
        _rule(("create",), (REPORTS,), OWN_GROUP),
    ),
    _role(
        "moorage:deployer",
        _rule(_READ, ("bindings", DECISIONS, "evictions", "workloadplacements"), OWN_GROUP),
        _rule(("create",), (REPORTS,), OWN_GROUP),
        _rule(_READ, ("namespaces", "pods", "replicationcontrollers")),
        _rule(_CHANGE, ("pods/status",)),
        _rule(_READ, ("daemonsets", "deployments", "replicasets", "statefulsets"), "apps"),
        _rule(_READ, ("jobs",), "batch"),
        _rule(_READ, ("placementdecisions", "placements"), _OCM),
        _rule(_READ, ("clusterresourcebindings", "resourcebindings"), "work.karmada.io"),
    ),
)

ROLES: Final = (*_KUBERNETES, *_OWN_ROLES, *set_roles(DEFAULT_SET), *set_roles(GLOBAL_SET))
"""The ClusterRoles that every fleet has. Do not change them; copy them."""

BINDINGS: Final = (
    _binding("cluster-admin", MASTERS),
    _binding("system:monitoring", "system:monitoring"),
    _binding("system:discovery", AUTHENTICATED),
    _binding("system:basic-user", AUTHENTICATED),
    _binding("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
    _binding("system:service-account-issuer-discovery", ACCOUNTS),
)
"""The ClusterRoleBindings that every fleet has. Do not change them; copy them."""
