"""The requests of random conversations about objects that no controller touches.

One or two objects of a kind are created, read, listed, replaced, patched and deleted, with valid and invalid options,
versions and bodies. The same seed gives the same requests.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

Json = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_STEPS = 10


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `$uid`, `$rv` and `$first` in it stand for the uid, the newest and the first version of its object."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def as_json(self) -> Json:
        """The form in which it is told."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Talk:
    """A kind that conversations are about."""

    path: str
    api_version: str
    kind: str
    content: Json
    changes: tuple[Json, ...]
    """Merge patches of what may be in an object, valid and invalid."""


TALKS = (
    Talk(
        "/api/v1/namespaces/default/configmaps",
        "v1",
        "ConfigMap",
        {"data": {"a": "1"}},
        (
            {"data": {"a": "2", "b": "3"}},
            {"data": {"a": None}},
            {"data": {"a b": "c"}},
            {"data": {"a": 5}},
            {"data": []},
            {"data": None},
            {"immutable": True},
            {"binaryData": {"x": "eA=="}},
            {"binaryData": {"x": "%"}},
            {"nosuch": 1},
        ),
    ),
    Talk(
        "/api/v1/namespaces/default/secrets",
        "v1",
        "Secret",
        {"data": {"a": "YQ=="}},
        (
            {"stringData": {"b": "c"}},
            {"data": {"a": None}},
            {"type": "kubernetes.io/tls"},
            {"immutable": True},
            {"data": {"a": "?"}},
        ),
    ),
    Talk(
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "coordination.k8s.io/v1",
        "Lease",
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10}},
        (
            {"spec": {"holderIdentity": "b", "leaseTransitions": 1}},
            {"spec": {"leaseDurationSeconds": 0}},
            {"spec": {"leaseDurationSeconds": "x"}},
            {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}},
            {"spec": None},
        ),
    ),
    Talk(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        "rbac.authorization.k8s.io/v1",
        "Role",
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
        (
            {"rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}]},
            {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
            {"rules": "x"},
        ),
    ),
    Talk(
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        "networking.k8s.io/v1",
        "NetworkPolicy",
        {"spec": {"podSelector": {}}},
        (
            {"spec": {"policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}},
            {"spec": {"policyTypes": ["Egress"]}},
            {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
        ),
    ),
    Talk(
        "/apis/storage.k8s.io/v1/storageclasses",
        "storage.k8s.io/v1",
        "StorageClass",
        {"provisioner": "example.com/none"},
        (
            {"allowVolumeExpansion": True},
            {"allowVolumeExpansion": False},
            {"mountOptions": ["b"]},
            {"mountOptions": ["a"]},
            {"mountOptions": None},
        ),
    ),
    Talk(
        "/api/v1/namespaces/default/services",
        "v1",
        "Service",
        {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"name": "a", "port": 80}]}},
        (
            {"spec": {"ports": [{"name": "a", "port": 81}]}},
            {"spec": {"ports": [{"name": "b", "port": 80}, {"name": "c", "port": 82, "protocol": "UDP"}]}},
            {"spec": {"ports": None}},
            {"spec": {"selector": {"c": "d"}}},
            {"spec": {"type": "Nosuch"}},
            {"spec": {"sessionAffinity": "ClientIP"}},
            {"spec": {"ports": [{"name": "a", "port": "x"}]}},
        ),
    ),
    Talk(
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        "networking.k8s.io/v1",
        "Ingress",
        {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
        (
            {"spec": {"defaultBackend": {"service": {"name": "b", "port": {"number": 81}}}}},
            {"spec": {"rules": [{"host": "a.example.com"}]}},
            {"spec": {"rules": [{"host": "b.example.com"}]}},
            {"spec": {"tls": [{"hosts": ["a.example.com"], "secretName": "s"}]}},
            {"spec": {"ingressClassName": "c"}},
        ),
    ),
    Talk(
        "/api/v1/namespaces/default/serviceaccounts",
        "v1",
        "ServiceAccount",
        {"automountServiceAccountToken": False},
        (
            {"imagePullSecrets": [{"name": "a"}]},
            {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
            {"imagePullSecrets": []},
            {"secrets": [{"name": "a"}]},
            {"automountServiceAccountToken": None},
        ),
    ),
    Talk(
        "/apis/batch/v1/namespaces/default/cronjobs",
        "batch/v1",
        "CronJob",
        {
            "spec": {
                "schedule": "@hourly",
                "suspend": True,
                "jobTemplate": {
                    "spec": {
                        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i:1"}]}}
                    }
                },
            }
        },
        (
            {"spec": {"schedule": "@daily"}},
            {"spec": {"schedule": "@weekly"}},
            {"spec": {"concurrencyPolicy": "Forbid"}},
            {"spec": {"successfulJobsHistoryLimit": 1}},
            {"spec": {"jobTemplate": {"metadata": {"labels": {"a": "b"}}}}},
        ),
    ),
    Talk(
        "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies",
        "policy.karmada.io/v1alpha1",
        "PropagationPolicy",
        {
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default"}],
                "priority": 1,
            }
        },
        (
            {"spec": {"priority": 5}},
            {"spec": {"priority": "x"}},
            {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["c1"]}}}},
            {"spec": {"conflictResolution": "Overwrite"}},
            {"spec": {"conflictResolution": "Nosuch"}},
            {"spec": {"nosuch": 1}},
            {"spec": {"resourceSelectors": []}},
        ),
    ),
    Talk(
        "/api/v1/namespaces/default/pods",
        "v1",
        "Pod",
        {"spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "i:1"}]}},
        (
            {"spec": {"containers": [{"name": "a", "image": "i:2"}]}},
            {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
            {"spec": {"activeDeadlineSeconds": 50}},
            {"spec": {"nodeSelector": {"a": "b"}}},
            {"spec": {"containers": []}},
            {"spec": {"tolerationSecond": 5}},
        ),
    ),
)

_CONDITIONAL = ("Lease", "PropagationPolicy")
"""Kinds whose objects are replaced in a kube-apiserver only if a version is named. Here it may be left out."""

_OTHER = "other-name"
_METADATA: tuple[Json, ...] = (
    {"labels": {"x": "y"}},
    {"labels": {"x": None}},
    {"labels": {"a b": "c"}},
    {"labels": {"n": 5}},
    {"annotations": {"note": "1"}},
    {"annotations": {"note": None}},
    {"annotations": None},
    {"finalizers": ["example.com/a"]},
    {"finalizers": ["example.com/a", "example.com/b"]},
    {"finalizers": []},
    {"finalizers": None},
    {"generateName": "g-"},
    {"namespace": "other"},
    {"name": _OTHER},
    {"uid": "11111111-2222-3333-4444-555555555555"},
    {"uid": "$uid"},
    {"resourceVersion": "$rv"},
    {"resourceVersion": "$first"},
    {"resourceVersion": "$rv", "labels": {"z": "1"}},
    {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    {"creationTimestamp": None},
    {"deletionGracePeriodSeconds": 5},
    {"managedFields": None},
    {"managedFields": []},
    {"nosuch": 1},
)
_OPTIONS: tuple[Json, ...] = (
    {},
    {},
    {},
    {},
    {"dryRun": "All"},
    {"dryRun": "Some"},
    {"fieldValidation": "Strict"},
    {"fieldValidation": "Ignore"},
    {"fieldValidation": "Bogus"},
    {"fieldManager": "alice"},
    {"fieldManager": "x" * 129},
    {"fieldManager": "a\nb"},
    {"pretty": "true"},
)
_DELETE_OPTIONS: tuple[Any, ...] = (
    None,
    None,
    {},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": -1},
    {"propagationPolicy": "Background"},
    {"propagationPolicy": "Nosuch"},
    {"propagationPolicy": "Orphan", "orphanDependents": True},
    {"orphanDependents": False},
    {"preconditions": {"uid": "$uid"}},
    {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
    {"preconditions": {"resourceVersion": "$rv"}},
    {"preconditions": {"resourceVersion": "$first"}},
    {"dryRun": ["All"]},
    {"dryRun": ["All", "Some"]},
    {"kind": "DeleteOptions", "apiVersion": "v1"},
    {"kind": "Foo", "apiVersion": "v1"},
    {"nosuch": 1},
)
_READ_QUERIES: tuple[Json, ...] = (
    {},
    {},
    {"resourceVersion": "x"},
    {"pretty": "false"},
)
_LIST_QUERIES: tuple[Json, ...] = (
    {},
    {"labelSelector": "conversation=ID,x"},
    {"labelSelector": "conversation=ID,x!=y"},
    {"labelSelector": "conversation in (ID),!x"},
    {"labelSelector": "conversation=ID,,"},
    {"labelSelector": "conversation=ID,x in ()"},
    {"labelSelector": "conversation=ID,a b"},
    {"fieldSelector": "metadata.name=NAME"},
    {"fieldSelector": "metadata.name!=NAME"},
    {"fieldSelector": "nosuch=1"},
    {"limit": "0"},
    {"limit": "x"},
    {"limit": "-1"},
    {"continue": "bogus"},
    {"resourceVersion": "$rv", "resourceVersionMatch": "NotOlderThan"},
    {"resourceVersionMatch": "NotOlderThan"},
    {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
    {"resourceVersion": "1", "resourceVersionMatch": "Nosuch"},
    {"timeoutSeconds": "x"},
    {"sendInitialEvents": "true"},
)
_JSON_PATCHES: tuple[Any, ...] = (
    [{"op": "add", "path": "/metadata/labels/p", "value": "q"}],
    [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}],
    [{"op": "add", "path": "/metadata/annotations/a", "value": "b"}],
    [{"op": "remove", "path": "/metadata/labels/nosuch"}],
    [{"op": "remove", "path": "/metadata/annotations"}],
    [{"op": "replace", "path": "/metadata/nosuch/deep", "value": 1}],
    [{"op": "replace", "path": "/metadata/labels/x", "value": "w"}],
    [{"op": "test", "path": "/metadata/labels/x", "value": "y"}],
    [{"op": "test", "path": "/kind", "value": "Other"}],
    [{"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/moved"}],
    [{"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/copied"}],
    [{"op": "nosuch", "path": "/a"}],
    [{"op": "add", "path": "no-slash", "value": 1}],
    [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"}],
    [{"op": "replace", "path": "/apiVersion", "value": "v9"}],
    [{"path": "/a"}],
    [],
    {},
    "x",
    [{"op": "replace", "path": "", "value": {"a": 1}}],  # what is left of a custom resource is told in other words
)


class Conversation:
    """Makes the requests of one conversation.

    Args:
        seed: of everything that is random.
    """

    def __init__(self, seed: str) -> None:
        self._pick = random.Random(seed)  # noqa: S311 - the same seed gives the same requests
        self._talk = self._pick.choice(TALKS)
        self._id = re.sub(r"[^a-z0-9]", "-", seed.lower())
        self._names = (f"conversation-{self._id}-a", f"conversation-{self._id}-b")

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of its objects, and of one that a request may make."""
        return tuple(f"{self._talk.path}/{name}" for name in (*self._names, _OTHER))

    def requests(self) -> Iterator[Request]:
        """The requests. The first one makes an object."""
        yield Request("POST", self._talk.path, body=self._object(self._names[0]))
        for _ in range(_STEPS):
            yield self._request()
        yield Request("GET", self.names[0])

    def _request(self) -> Request:
        name = self._names[0] if self._pick.random() < 0.85 else self._names[1]
        make = self._pick.choice(
            (
                self._create,
                self._read,
                self._list,
                self._replace,
                self._replace,
                self._patch,
                self._patch,
                self._patch,
                self._apply,
                self._apply,
                self._json_patch,
                self._delete,
                self._delete_all,
            )
        )
        return make(name)

    def _object(self, name: str) -> Json:
        metadata = {"name": name, "labels": {"conversation": self._id}}
        return {
            "apiVersion": self._talk.api_version,
            "kind": self._talk.kind,
            "metadata": metadata,
        } | self._talk.content

    def _flawed(self, name: str) -> Json:
        """An object, mostly with a change or two."""
        body = self._object(name)
        for _ in range(self._pick.choice((0, 1, 1, 2))):
            body = _merged(body, self._change())
        if self._pick.random() < 0.08 and self._talk.kind != "PropagationPolicy":  # told with its other mistakes
            body = {**body, **self._pick.choice(({"kind": "Other"}, {"apiVersion": "v9"}, {"metadata": None}))}
        return body

    def _change(self) -> Json:
        if self._pick.random() < 0.6:
            return {"metadata": self._about()}
        return self._pick.choice(self._talk.changes)

    def _about(self) -> Json:
        """A change of the metadata."""
        own = self._talk.kind == "PropagationPolicy"
        return self._pick.choice([one for one in _METADATA if not (own and one.get("managedFields") == [])])

    def _create(self, name: str) -> Request:
        query, body = self._pick.choice(_OPTIONS), self._flawed(name)
        if "dryRun" in query and isinstance(body["metadata"], dict):  # nobody looks at a version then
            body["metadata"].pop("resourceVersion", None)
        return Request("POST", self._talk.path, query, body=body)

    def _read(self, name: str) -> Request:
        headers = self._pick.choice(({}, {}, {"accept": _TABLE}, {"accept": _PARTIAL}, {"accept": "text/html"}))
        return Request("GET", f"{self._talk.path}/{name}", self._pick.choice(_READ_QUERIES), headers)

    def _list(self, name: str) -> Request:
        own = {"labelSelector": f"conversation={self._id}"}
        query = own | {
            key: value.replace("ID", self._id).replace("NAME", name)
            for key, value in self._pick.choice(_LIST_QUERIES).items()
        }
        headers = self._pick.choice(({}, {}, {"accept": _TABLE}, {"accept": _PARTIAL_LIST}))
        return Request("GET", self._talk.path, query, headers)

    def _replace(self, name: str) -> Request:
        body = self._flawed(name)
        if self._talk.kind in _CONDITIONAL and isinstance(body["metadata"], dict):  # only with one in a kube-apiserver
            body["metadata"].setdefault("resourceVersion", "$rv")
        return Request("PUT", f"{self._talk.path}/{name}", self._pick.choice(_OPTIONS), body=body)

    def _patch(self, name: str) -> Request:
        media = self._pick.choice((MERGE, MERGE, _STRATEGIC, _STRATEGIC, JSON, "text/plain"))
        body: Any = self._change()
        if self._pick.random() < 0.2:
            body = _merged(body, self._change())
        if self._pick.random() < 0.05:
            body = self._pick.choice(("x", 5, None, {"metadata": 5}))
        return Request("PATCH", f"{self._talk.path}/{name}", self._pick.choice(_OPTIONS), {"content-type": media}, body)

    def _apply(self, name: str) -> Request:
        body = self._flawed(name)
        if self._talk.kind == "PropagationPolicy":  # null texts of a custom resource become empty, in an apply alone
            body = _without_nulls(body)
        query = {"fieldManager": self._pick.choice(("alice", "bob", "")), **self._pick.choice(_OPTIONS)}
        if self._pick.random() < 0.3:
            query["force"] = self._pick.choice(("true", "false", "x"))
        query = {key: value for key, value in query.items() if value}
        return Request("PATCH", f"{self._talk.path}/{name}", query, {"content-type": _APPLY}, body)

    def _json_patch(self, name: str) -> Request:
        body = self._pick.choice(_JSON_PATCHES[:-1] if self._talk.kind == "PropagationPolicy" else _JSON_PATCHES)
        query = self._pick.choice(_OPTIONS)
        return Request("PATCH", f"{self._talk.path}/{name}", query, {"content-type": _JSON_PATCH}, body)

    def _delete(self, name: str) -> Request:
        query = self._pick.choice(({}, {}, {"dryRun": "All"}, {"gracePeriodSeconds": "0"}, {"propagationPolicy": "X"}))
        return Request("DELETE", f"{self._talk.path}/{name}", query, body=self._pick.choice(_DELETE_OPTIONS))

    def _delete_all(self, _: str) -> Request:
        query = {"labelSelector": f"conversation={self._id}"}
        query |= self._pick.choice(({}, {"dryRun": "All"}, {"limit": "1"}, {"fieldSelector": "metadata.name=nosuch"}))
        return Request("DELETE", self._talk.path, query)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return value


def _merged(value: Any, patch: Any) -> Any:
    """A JSON merge that keeps nulls: a body may have them."""
    if not isinstance(value, dict) or not isinstance(patch, dict):
        return patch
    return {**value, **{key: _merged(value.get(key), one) for key, one in patch.items()}}
