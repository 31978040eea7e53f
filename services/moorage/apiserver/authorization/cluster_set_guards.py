"""Who may put managed clusters into sets, bind sets to namespaces, and accept clusters.

Source: `open-cluster-management.io/ocm/pkg/registration/webhook`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.authorization.guarded_write import GuardedWrite
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.rbac.cluster_sets import REGISTER_GROUP
from moorage.decide.kubernetes.attributes import Attributes, User
from moorage.decide.kubernetes.field_errors import quote
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.scheduling.ocm.cluster_sets import named_set
from moorage.decide.scheduling.ocm.set_permissions import CLUSTERS, OCM_GROUP, SETS


def check_cluster(authorizer: Authorizer, user: User, write: GuardedWrite) -> None:
    """Check a write of a managed cluster.

    Raises:
        StatusError: 403 if it is accepted by, or changes its set because of, somebody who may not do that.
    """
    before = write.before or {}
    if _accepted(write.after) and not _accepted(before):
        asked = Attributes("update", REGISTER_GROUP, "", CLUSTERS, "accept", "", write.name)
        if not authorizer.authorize(user, asked).allowed:
            why = f"user {quote(user.name)} cannot update the HubAcceptsClient field"
            raise api_errors.forbidden(OCM_GROUP, f"{CLUSTERS}/accept", write.name, why)
    left = named_set(_labels(before)) if write.before is not None else ""
    joined = named_set(_labels(write.after))
    for name in dict.fromkeys((left, joined)) if left != joined else ():
        if name and not authorizer.authorize(user, _asked("join", name)).allowed:
            why = f"user {quote(user.name)} cannot add/remove a ManagedCluster to/from ManagedClusterSet {quote(name)}"
            raise api_errors.forbidden(OCM_GROUP, f"{SETS}/join", name, why)


def check_set_binding(authorizer: Authorizer, user: User, write: GuardedWrite) -> None:
    """Check a write of a ManagedClusterSetBinding. Only its creation is checked, for it keeps its set.

    Raises:
        StatusError: 403 if the writer may not bind the set.
    """
    name = str(part(write.after, "spec").get("clusterSet") or "")
    if write.before is None and not authorizer.authorize(user, _asked("bind", name)).allowed:
        why = f"user {quote(user.name)} is not allowed to bind cluster set {quote(name)}"
        raise api_errors.forbidden(OCM_GROUP, f"{SETS}/bind", name, why)


def _asked(subresource: str, name: str) -> Attributes:
    return Attributes("create", OCM_GROUP, "", SETS, subresource, "", name)


def _accepted(cluster: Mapping[str, Any]) -> bool:
    return part(cluster, "spec").get("hubAcceptsClient") is True


def _labels(cluster: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in part(part(cluster, "metadata"), "labels").items()}
