"""Roles of manifests beside the requests that the audit of an API server has."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from tests.planes.cluster import APPLY, Cluster
from tests.planes.plane import Plane
from tests.support import manifests
from tests.support.commands import program

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"

Permission = tuple[str, str, str]
"""Group, resource and verb."""


@dataclass(frozen=True)
class Audited:
    """One request of the bridge."""

    permission: Permission
    namespace: str
    name: str
    code: int


def path_of(one: dict[str, Any]) -> str:
    """The path of a role or a binding."""
    space = one["metadata"].get("namespace")
    kind = f"{one['kind'].lower()}s"
    return f"{RBAC}/{f'namespaces/{space}/' if space else ''}{kind}/{one['metadata']['name']}"


def audited(file: Path) -> list[Audited]:
    """The requests for objects that the audit has."""
    found = []
    for line in file.read_text("utf-8").splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if about is None or "responseStatus" not in event:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        permission = (about.get("apiGroup", ""), resource, event["verb"])
        code = event["responseStatus"].get("code", 0)
        found.append(Audited(permission, about.get("namespace", ""), about.get("name", ""), code))
    return found


def granted(found: list[dict[str, Any]]) -> set[Permission]:
    """What these roles permit."""
    return {
        (group, resource, verb)
        for one in found
        for rule in one.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without(role: dict[str, Any], permission: Permission) -> dict[str, Any]:
    """A role that does not permit one thing."""
    group, resource, verb = permission
    made = copy.deepcopy(role)
    if "rules" not in made:  # a binding
        return made
    for rule in made["rules"]:
        if rule["apiGroups"] == [group] and rule["resources"] == [resource] and verb in rule["verbs"]:
            rule["verbs"] = [one for one in rule["verbs"] if one != verb]
    made["rules"] = [rule for rule in made["rules"] if rule["verbs"]]
    return made


def audit_flags(folder: Path, *users: str) -> tuple[Path, str]:
    """The file of the audit of an API server, and the flags with which it has the requests of some users."""
    log, policy = folder / "audit.log", folder / "audit.yaml"
    rules = [{"level": "Metadata", "users": list(users)}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return log, f"--audit-policy-file={policy} --audit-log-path={log}"


async def grant(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    """Apply roles and their bindings."""
    for one in documents:
        await cluster.patch(f"{path_of(one)}?fieldManager=ops&force=true", one, APPLY)


def documents_of(kind: str) -> list[dict[str, Any]]:
    """The roles of a kind of bridge, and their bindings, as they are in the manifests."""
    files = sorted((manifests.KUBERNETES / "bridge" / kind).rglob("*.yaml"))
    read = [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]
    return [one for one in read if "Role" in one["kind"]]


async def applied(plane: Plane, *folders: str) -> None:
    """Apply folders of manifests with kubectl, as the pages say."""
    for folder in folders:
        words = (manifests.kubectl(), "--kubeconfig", str(plane.kubeconfig), "--warnings-as-errors")
        done = await program(*words, "apply", "-k", str(manifests.KUBERNETES / folder), seconds=120)
        assert done.code == 0, done.err


async def as_account(cluster: Cluster, plane: Plane, namespace: str, name: str) -> dict[str, Any]:
    """A kubeconfig with a token of a service account."""
    place = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    made = await cluster.create(place, {"spec": {"expirationSeconds": 3600}})
    config: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text("utf-8"))
    config["users"][0]["user"] = {"token": made["status"]["token"]}
    return config


async def permits(
    cluster: Cluster, user: str, permission: Permission, namespace: str, names: Mapping[str, str]
) -> bool:
    """Whether somebody may do something.

    Args:
        cluster: is asked.
        user: who.
        permission: what.
        namespace: where.
        names: the only objects of some resources that it is about.
    """
    group, resource, verb = permission
    kind, _, part = resource.partition("/")
    about = {"group": group, "resource": kind, "subresource": part, "verb": verb, "namespace": namespace}
    if verb not in {"create", "list", "watch"} and kind in names:
        about["name"] = names[kind]
    review = {"spec": {"user": user, "groups": ["system:serviceaccounts"], "resourceAttributes": about}}
    answer = await cluster.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
