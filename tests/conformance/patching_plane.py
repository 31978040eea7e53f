"""Random writes to a real kube-apiserver, and its answers.

Each request is first sent with `dryRun=All`, and counts only if the object is the same before and after it, so that
controllers may run. Then it is sent again, so that the next one finds what it has made.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import random
import secrets
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.conformance import patching
from tests.conformance.patching import Answer, Request
from tests.support.typed_documents import Document, openapi
from tests.support.waiting import until

from moorage.apiserver.machinery.patching import merge_patch
from moorage.apiserver.machinery.patching.server_side_apply import reset_fields

VARIABLE = "MOORAGE_PLANES"
"""The folder of a control plane that is compared with."""

_STEPS = 12
_WORDS = ("a", "b", "c")
_MANAGERS = ("kubectl", "alice", "bob")
_TYPES = {
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class PlaneMissingError(Exception):
    """There is no control plane where one should be."""


def connection(folder: Path) -> dict[str, Any]:
    """The options of an HTTP client that speaks with the kube-apiserver whose `kubeconfig` is in a folder.

    Raises:
        PlaneMissingError: it is not there.
    """
    path = folder / "kubeconfig"
    if not path.is_file():
        raise PlaneMissingError(f"no control plane is compared with: {path} is missing")
    config = yaml.safe_load(path.read_text("utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return {
        "base_url": cluster["server"],
        "headers": {"authorization": f"Bearer {user['token']}"},
        "verify": ssl.create_default_context(cadata=authority),
        "timeout": 30,
    }


class Plane:
    """A client of a kube-apiserver."""

    def __init__(self, folder: Path) -> None:
        """Read the kubeconfig in a folder.

        Raises:
            PlaneMissingError: it is not there, or the server does not answer.
        """
        options = connection(folder)
        self._client = httpx.Client(**options)
        try:
            self._client.get("/version").raise_for_status()
        except httpx.HTTPError as error:
            raise PlaneMissingError(f"no control plane is compared with: {options['base_url']}: {error}") from None

    def send(self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str) -> Answer:
        """Send a request, and return its object as `result`, or its code, message and causes."""
        content = None if body is None else json.dumps(body)
        response = self._client.request(method, path, content=content, params=query, headers={"content-type": media})
        if not response.headers.get("content-type", "").startswith("application/json"):
            return {"code": response.status_code, "error": response.text.strip()}
        document: Document = response.json()
        if response.status_code < httpx.codes.BAD_REQUEST:
            return {"result": document}
        causes = (document.get("details") or {}).get("causes") or []
        listed = [[one.get("reason", ""), one.get("message", ""), one.get("field", "")] for one in causes]
        answer: Answer = {"code": response.status_code, "error": document.get("message", "")}
        return answer | ({"causes": sorted(listed)} if listed else {})


def made(folder: Path, seed: str, count: int) -> Iterator[list[tuple[Request, Answer]]]:
    """Random requests with a kube-apiserver's answers.

    Args:
        folder: with the kubeconfig.
        seed: of everything that is random but the names of the objects.
        count: the number of requests, at least.

    Raises:
        PlaneMissingError: there is no control plane.
    """
    plane = Plane(folder)
    pick = random.Random(seed)  # noqa: S311 - test data from a seed
    for kind in _KINDS:
        if kind.is_custom:
            _define(plane, kind)
    done = 0
    while done < count:
        for pair in _object(plane, pick, pick.choice(_KINDS)):
            done += 1
            yield [pair]


def _define(plane: Plane, kind: _Kind) -> None:
    """Define a custom resource, if the server does not know it."""
    if "result" in plane.send("GET", kind.path):
        return
    named = kind.named()
    (definition,) = openapi(patching.schema_for(named), **named).values()
    definition["properties"]["metadata"] = {"type": "object"}
    definition.pop("x-kubernetes-group-version-kind")
    plural = kind.path.rpartition("/")[2]
    version = {
        "name": named["version"],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _structural(definition)},
        "subresources": {"status": {}},
    }
    names = {"plural": plural, "kind": kind.kind, "listKind": f"{kind.kind}List", "singular": kind.kind.lower()}
    spec = {"group": named["group"], "names": names, "scope": "Cluster", "versions": [version]}
    metadata = {"name": f"{plural}.{named['group']}", "annotations": {_APPROVED: "unapproved, for tests"}}
    answer = plane.send(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
        },
    )
    if "result" not in answer:
        raise PlaneMissingError(f"{kind.kind} cannot be defined: {answer['error']}")
    asyncio.run(until(lambda: "result" in plane.send("GET", kind.path), message=f"{kind.kind} was not served"))


_APPROVED = "api-approved.kubernetes.io"


def _structural(definition: Any) -> Any:
    """A definition in the form that custom resources must have."""
    if isinstance(definition, list):
        return [_structural(one) for one in definition]
    if not isinstance(definition, dict):
        return definition
    if definition.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    found = {key: _structural(one) for key, one in definition.items()}
    if found.get("x-kubernetes-preserve-unknown-fields") is True:
        found["type"] = "object"
    return found


def _object(plane: Plane, pick: random.Random, kind: _Kind) -> Iterator[tuple[Request, Answer]]:
    """The life of one object."""
    name = f"patching-{secrets.token_hex(4)}"
    start: Document = {**copy.deepcopy(kind.start), "metadata": {"name": name, "labels": {"a": "a"}}}
    made_ = plane.send("POST", kind.path, start, fieldManager="kubectl", dryRun="All")
    request = {
        **kind.base(""),
        "op": "update",
        "document": None,
        "manager": "kubectl",
        "force": False,
        "is_plane": True,
    }
    if not kind.is_filled_in:
        yield {**request, "modified": _bare(made_["result"])}, made_
    place = f"{kind.path}/{name}"
    plane.send("POST", kind.path, start, fieldManager="kubectl")
    try:
        for _ in range(_STEPS):
            yield from _step(plane, pick, kind, place)
    finally:
        plane.send("DELETE", place, {"gracePeriodSeconds": 0})


def _step(plane: Plane, pick: random.Random, kind: _Kind, place: str) -> Iterator[tuple[Request, Answer]]:
    live: Document = plane.send("GET", place)["result"]
    is_status = bool(kind.status_changes) and pick.random() < 0.2
    at = f"{place}/status" if is_status else place
    op = pick.choice(("apply", "apply", "apply", "merge", "json", "update", "merge" if kind.is_custom else "strategic"))
    manager, force = pick.choice(_MANAGERS), op == "apply" and pick.random() < 0.3
    changes = kind.status_changes if is_status else kind.changes
    request: Request = {**kind.base("status" if is_status else ""), "op": op, "manager": manager, "force": force}
    wanted = _changed(pick, live, changes)
    query = {"fieldManager": manager} | ({"force": "true"} if force else {})
    if op == "update":
        method, body, media = "PUT", wanted, "application/json"
    else:
        method, body, media = "PATCH", _patch(pick, op, live, wanted, kind), _TYPES[op]
    answer = plane.send(method, at, body, media, dryRun="All", **query)
    if plane.send("GET", place)["result"]["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
        return
    if "result" in answer or _counts(op, answer):
        if op != "update":
            replaced = _replaced(plane, at, {**request, "document": live, "patch": body})
            yield {**request, "document": live, "patch": body, "is_defaulted": True} | replaced, answer
        if op != "apply" and "result" in answer:
            yield (
                {**request, "op": "update", "document": live, "modified": _bare(answer["result"]), "is_plane": True},
                answer,
            )
    plane.send(method, at, body, media, **query)


def _counts(op: str, answer: Answer) -> bool:
    """Whether a refusal is that of the patch, and not of what it would make."""
    return (op == "apply" and answer["code"] == httpx.codes.CONFLICT) or bool(answer["error"] == _REJECTED)


_REJECTED = "the server rejected our request due to an error in our request"


def _replaced(plane: Plane, at: str, request: Request) -> Document:
    """What the server makes of Moorage's result: with its defaults, it must be that of the patch."""
    mine = patching.answered(request)
    if "result" not in mine:
        return {}
    answer = plane.send("PUT", at, mine["result"], dryRun="All", fieldManager=request["manager"])
    if answer.get("code") == httpx.codes.CONFLICT:
        return {}  # a controller has written in the meantime
    return {"replaced": answer.get("result", answer)}


def _bare(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": metadata}


def _changed(pick: random.Random, live: Document, changes: tuple[_Change, ...]) -> Document:
    wanted = copy.deepcopy(live)
    for change in pick.sample(changes, pick.randint(1, min(3, len(changes)))):
        change(wanted, pick)
    return wanted


def _patch(pick: random.Random, op: str, live: Document, wanted: Document, kind: _Kind) -> Any:
    if op in {"strategic", "merge"}:
        return merge_patch.two_way(live, wanted)
    if op == "json":
        difference = merge_patch.two_way(live, wanted)
        operations = [
            {"op": "add" if value is not None else "remove", "path": f"/{part}/{key}", "value": wanted[part].get(key)}
            for part in difference
            if isinstance(difference[part], dict)
            for key, value in difference[part].items()
            if isinstance(wanted.get(part), dict)
        ]
        if pick.random() < 0.3:
            operations.insert(0, {"op": "test", "path": "/kind", "value": pick.choice((kind.kind, "Other"))})
        return operations
    metadata = {key: value for key, value in wanted["metadata"].items() if key in {"name", "labels", "annotations"}}
    config: Document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    for part in ("spec", "data", "status"):
        if isinstance(wanted.get(part), dict):
            config[part] = {key: value for key, value in wanted[part].items() if pick.random() < 0.7}
    return config


# What is changed. Everything is valid for an API server.

_Change = Callable[[Document, random.Random], None]


def _labels(name: str) -> _Change:
    def change(document: Document, pick: random.Random) -> None:
        found = {word: pick.choice(_WORDS) for word in pick.sample(_WORDS, pick.randint(0, 3))}
        document["metadata"][name] = found

    return change


def _containers(template: Document, pick: random.Random) -> None:
    spec = template["spec"]
    chosen = pick.sample(_WORDS, pick.randint(1, 3))
    before = {one["name"]: one for one in spec.get("containers") or []}
    spec["containers"] = [{**before.get(word, {"name": word, "image": "i:1"})} for word in chosen]
    one = pick.choice(spec["containers"])
    one["image"] = f"i:{pick.randint(1, 3)}"
    one["env"] = [{"name": word.upper(), "value": pick.choice(_WORDS)} for word in pick.sample(_WORDS, 2)]
    one["ports"] = [
        {"containerPort": number, "protocol": pick.choice(("TCP", "UDP"))} for number in pick.sample((80, 81, 82), 2)
    ]
    one["resources"] = {"requests": {"cpu": pick.choice(("100m", "1", "1500m"))}}


def _tolerations(spec: Document, pick: random.Random) -> None:
    spec["tolerations"] = [
        {"key": word, "operator": "Exists", "effect": "NoSchedule"} for word in pick.sample(_WORDS, pick.randint(0, 2))
    ]


def _taints(document: Document, pick: random.Random) -> None:
    document.setdefault("spec", {})["taints"] = [
        {"key": word, "value": pick.choice(_WORDS), "effect": "NoSchedule"} for word in pick.sample(_WORDS, 2)
    ]


def _set(part: str, name: str, *values: Any) -> _Change:
    def change(document: Document, pick: random.Random) -> None:
        document.setdefault(part, {})[name] = copy.deepcopy(pick.choice(values))

    return change


def _conditions(document: Document, pick: random.Random) -> None:
    document.setdefault("status", {})["conditions"] = [
        {"type": word, "status": pick.choice(("True", "False"))} for word in pick.sample(_WORDS, pick.randint(1, 3))
    ]


def _ports(document: Document, pick: random.Random) -> None:
    document["spec"]["ports"] = [
        {"name": word, "port": 80 + number, "protocol": "TCP"}
        for number, word in enumerate(pick.sample(_WORDS, pick.randint(1, 3)))
    ]


def _in_template(change: _Change) -> _Change:
    return lambda document, pick: change(document["spec"]["template"], pick)


_ABOUT: tuple[_Change, ...] = (_labels("labels"), _labels("annotations"))


class _Kind:
    """A kind, an object of it, and what may be changed."""

    def __init__(
        self, path: str, start: Document, changes: tuple[_Change, ...], status_changes: tuple[_Change, ...] = ()
    ) -> None:
        self.path, self.start, self.changes, self.status_changes = path, start, (*_ABOUT, *changes), status_changes
        self.api_version, self.kind = start["apiVersion"], start["kind"]
        # Of most new ones, the server sets fields after it has recorded the owners of the others.
        self.is_filled_in = self.kind in {"Job", "Node", "Pod", "Service"}
        self.is_custom = patching.is_custom(self.named())

    def named(self) -> Request:
        """The part of a request that names the kind."""
        group, _, version = self.api_version.rpartition("/")
        return {"group": group, "version": version, "kind": self.kind}

    def base(self, subresource: str) -> Request:
        """The part of a request that names the kind and what of it is written."""
        named = self.named()
        has_status = "status" in patching.schema_for(named).fields
        reset = reset_fields(named["group"], self.kind, subresource, has_status=has_status, is_custom=self.is_custom)
        return {**named, "subresource": subresource, "reset": [list(path) for path in reset]}


_TEMPLATE: Document = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1"}]},
}
_KINDS = (
    _Kind(
        "/apis/apps/v1/namespaces/default/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE},
        },
        (
            _in_template(_containers),
            _in_template(_containers),
            _in_template(lambda template, pick: _tolerations(template["spec"], pick)),
            _set("spec", "replicas", 0, 1, 2),
            _set("spec", "strategy", {"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}),
            _set("spec", "minReadySeconds", 0, 5),
        ),
        (_set("status", "observedGeneration", 1, 2), _conditions),
    ),
    _Kind(
        "/api/v1/nodes",
        {"apiVersion": "v1", "kind": "Node"},
        (_taints, _taints, _set("spec", "unschedulable", *(True, False))),
        (
            _conditions,
            _set("status", "capacity", {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}),
            _set(
                "status",
                "addresses",
                [{"type": "Hostname", "address": "a"}],
                [{"type": "InternalIP", "address": "1.2.3.4"}, {"type": "Hostname", "address": "b"}],
            ),
        ),
    ),
    _Kind(
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"selector": {"a": "a"}, "ports": [{"name": "a", "port": 80}]},
        },
        (_ports, _ports, _set("spec", "selector", {"a": "a"}, {"b": "b"}, {"a": "b", "c": "c"})),
    ),
    _Kind(
        "/api/v1/namespaces/default/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}},
        (
            _set("data", "a", "1", "2"),
            _set("data", "b", "1", "2"),
            lambda document, _: document.get("data", {}).pop("a", None),
        ),
    ),
    _Kind(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "a"}}},
        },
        (
            _set("spec", "minAvailable", 1, 2, "50%"),
            _set("spec", "selector", {"matchLabels": {"b": "b"}}, {"matchLabels": {"a": "b", "c": "c"}}),
        ),
    ),
    _Kind(
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i:1"}]}},
            },
        },
        (_set("spec", "parallelism", 1, 2, 3), _set("spec", "activeDeadlineSeconds", 10, 20)),
    ),
    _Kind(
        "/api/v1/namespaces/default/pods",
        {"apiVersion": "v1", "kind": "Pod", "spec": {**_TEMPLATE["spec"], "schedulerName": "nobody"}},
        (
            lambda document, pick: document["spec"]["containers"][0].update(image=f"i:{pick.randint(1, 4)}"),
            lambda document, pick: document["spec"]["containers"][1].update(image=f"i:{pick.randint(1, 4)}"),
        ),
        (_conditions, _set("status", "phase", "Pending", "Running")),
    ),
    _Kind(
        "/apis/cluster.open-cluster-management.io/v1/managedclusters",
        {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "spec": {"hubAcceptsClient": True},
        },
        (
            _set("spec", "hubAcceptsClient", *(True, False)),
            _set("spec", "leaseDurationSeconds", 30, 60),
            _set("spec", "managedClusterClientConfigs", [{"url": "https://a"}], [{"url": "https://b"}], []),
            _set("spec", "taints", [{"key": "a", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}], []),
        ),
        (
            _set("status", "capacity", {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}),
            _set("status", "clusterClaims", [{"name": "a", "value": "1"}], [{"name": "b"}, {"name": "a"}]),
        ),
    ),
)
