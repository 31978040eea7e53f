"""Discovery of the served groups, versions and resources, in both forms, and of the issuer of tokens."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.authentication.account_tokens import AccountKeys
from moorage.apiserver.http import health
from moorage.apiserver.http.discovery import cluster_views, definitions, reviews
from moorage.apiserver.http.filters.request_attributes import (
    CONDITIONS_PATH,
    DECISIONS_PATH,
    EXPLAIN_PATH,
    SIMULATE_PATH,
)
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.messages.negotiation import JSON, PROTOBUF, YAML, AnswerForm, accepted, clauses
from moorage.apiserver.http.subresources.pods import BINDING, BINDINGS, EVICTION, ORDERS
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.namespace import FINALIZE
from moorage.apiserver.kinds.stored import TOKEN
from moorage.apiserver.kinds.views import REPLAY
from moorage.apiserver.machinery.api_errors import no_such_path
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of
from moorage.apiserver.machinery.served_kinds import served
from moorage.runtime.process.versions import own_version

Document = dict[str, Any]

KUBERNETES_MINOR = "37"
"""The minor version of the Kubernetes API whose formats are used."""

_AGGREGATED: Final = "APIGroupDiscoveryList"
_AGGREGATED_GROUP: Final = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
_ANSWERS: Final[Mapping[str, tuple[str, tuple[str, str] | None]]] = {
    "scale": ("Scale", ("autoscaling", "v1")),
    EVICTION: ("Eviction", ("policy", "v1")),
    BINDING: ("Binding", None),
    TOKEN: ("TokenRequest", ("authentication.k8s.io", "v1")),
}
"""The kind of subresources that are none of the object's own, and its group and version if these are others."""

_VERBS: Final = {**dict.fromkeys((*ORDERS, REPLAY, TOKEN), ("create",)), FINALIZE: ("update",)}
"""The verbs of subresources that have not all of them."""


@dataclass(frozen=True, slots=True)
class DiscoveredResource:
    """One resource as discovery lists it: a kind, or a subresource of one."""

    name: str
    """The plural, followed by `/` and the subresource of one."""

    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    answers: tuple[str, str] | None = None
    """Group and version of what it answers with, if they are others than its own."""

    storage_hash: str = ""
    """Distinguishes versions of the stored form. Empty for what is not stored."""


def api_versions(address: str) -> Document:
    """`/api`: the versions of the core group. `address` is the host and port under which the request came."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}] if address else []
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def api_groups() -> Document:
    """`/apis`: the named groups."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in _groups() if name]}


def api_group(name: str) -> Document:
    """`/apis/{group}`: one group. Raises StatusError: 404 if there is no group of that name."""
    if not name or name not in _groups():
        raise no_such_path()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resources(group: str, api_version: str) -> Document:
    """`/api/v1`, `/apis/{group}/{version}`: the resources of one version.

    Raises:
        StatusError: 404 if the version is not served.
    """
    if api_version not in _groups().get(group, ()):
        raise no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{api_version}" if group else api_version,
        "resources": [_listed(one) for one in _resources(group, api_version)],
    }


def server_version() -> Document:
    """`/version`: the version of the server."""
    return {
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "gitVersion": f"v1.{KUBERNETES_MINOR}.0+moorage-{own_version()}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def root_paths(*, issues_tokens: bool) -> Document:
    """`/`: the paths of everything else. `issues_tokens`: whether the keys of service accounts' tokens are shown."""
    groups = [
        path
        for group, versions in _groups().items()
        if group
        for path in (f"/apis/{group}", *(f"/apis/{group}/{one}" for one in versions))
    ]
    configuration, keys = ((ISSUER_CONFIGURATION,), (ISSUER_KEYS,)) if issues_tokens else ((), ())
    other = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", *keys, "/readyz")
    own = (CONDITIONS_PATH, DECISIONS_PATH, EXPLAIN_PATH, SIMULATE_PATH)
    return {"paths": [*configuration, "/api", "/api/v1", "/apis", *sorted(groups), *other, *own, "/version"]}


def answer_groups(request: Request, first: Document, *, is_core: bool) -> Response:
    """Answer `/api` or `/apis`, in the aggregated form if the request prefers it.

    Raises:
        StatusError: 406 if none of the accepted forms can be sent.
    """
    header = ",".join(request.headers.getlist("accept"))
    for clause in clauses(header):
        parameters = clause.parameters
        asked = parameters.get("as") == _AGGREGATED and parameters.get("g") == _AGGREGATED_GROUP
        if asked and clause.media == JSON and parameters.get("v") in _AGGREGATED_VERSIONS:
            return _aggregated(request, parameters["v"], is_core=is_core)
        if not asked and clause.media in {JSON, YAML, PROTOBUF, "*/*"}:
            break
    response = answers.in_form(200, first, plain_form(request))
    response.headers["vary"] = "Accept"
    return response


def plain_form(request: Request) -> AnswerForm:
    """Return the form of an answer of discovery. Raises StatusError: 406 if none of the accepted forms can be sent."""
    return accepted(request, (JSON, YAML, PROTOBUF))


def _aggregated(request: Request, version: str, *, is_core: bool) -> Response:
    content, tag = _aggregated_content(version, is_core, served())
    headers = {"etag": tag, "vary": "Accept", "cache-control": "public"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    media = f"{JSON};g={_AGGREGATED_GROUP};v={version};as={_AGGREGATED}"
    return Response(content, 200, {**headers, "content-type": media})


@cache
def _aggregated_content(version: str, is_core: bool, _: tuple[ServedKind, ...]) -> tuple[bytes, str]:  # noqa: FBT001 - a key of the cache
    items = []
    for group, versions in _groups().items():
        if bool(group) is is_core:
            continue
        metadata = {"name": group} if group else {}
        found = [
            {"version": one, "resources": list(_discovered(_resources(group, one))), "freshness": "Current"}
            for one in versions
        ]
        items.append({"metadata": metadata, "versions": found})
    content = orjson.dumps(
        {"kind": _AGGREGATED, "apiVersion": f"{_AGGREGATED_GROUP}/{version}", "metadata": {}, "items": items},
        option=orjson.OPT_APPEND_NEWLINE,
    )
    return content, f'"{hashlib.sha256(content).hexdigest().upper()}"'


def _all() -> tuple[ServedKind, ...]:
    """Return every kind, those among them that follow from others."""
    return (*served(), *cluster_views.SERVED, definitions.SERVED)


def has_group(name: str) -> bool:
    """Return whether an API group is served."""
    return any(kind.group == name for kind in _all() if kind.group) or any(one.group == name for one in reviews.REVIEWS)


def _groups() -> dict[str, list[str]]:
    """Return the groups with their versions, the preferred one first."""
    found: dict[str, list[str]] = {}
    for group, one in (*((kind.group, kind.version) for kind in _all()), *reviews.VERSIONS):
        versions = found.setdefault(group, [])
        if one not in versions:
            versions.append(one)
    return found


def _group(name: str) -> Document:
    shown = [{"groupVersion": f"{name}/{one}", "version": one} for one in _groups()[name]]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _resources(group: str, api_version: str) -> list[DiscoveredResource]:
    """Return the resources of one version, each followed by its subresources."""
    found: list[DiscoveredResource] = []
    for kind in served():
        if (kind.group, kind.version) == (group, api_version):
            found += (_resource(kind), *_subresources(kind))
    found += (_resource(kind) for kind in cluster_views.SERVED if (kind.group, kind.version) == (group, api_version))
    if (group, api_version) == ("", "v1"):
        found.append(DiscoveredResource(BINDINGS, "Binding", namespaced=True, verbs=("create",), singular=BINDING))
    if (group, api_version) == (definitions.GROUP, definitions.SERVED.version):
        only = _resource(definitions.SERVED)
        found.append(replace(only, verbs=definitions.VERBS, categories=definitions.CATEGORIES))
    for review in reviews.REVIEWS:
        if review.group == group and api_version == reviews.VERSION:
            found.append(
                DiscoveredResource(review.plural, review.kind, review.namespaced, ("create",), review.kind.lower())
            )
    return sorted(found, key=lambda one: one.name)


def _resource(kind: ServedKind) -> DiscoveredResource:
    definition = kind.definition
    return DiscoveredResource(
        kind.plural,
        kind.kind,
        kind.namespaced,
        tuple(kind.verbs),
        definition.singular,
        definition.short_names,
        (*(("all",) if definition.in_all else ()), *definition.categories),
        storage_hash=_storage_hash(kind),
    )


def _storage_hash(kind: ServedKind) -> str:
    """Return a short hash of the version in which objects are stored, as an API server shows it.

    Clients that move objects to a newer version see by it that there is one. Versions of a custom resource have each
    their own.
    """
    group, version = kind.definition.group, kind.definition.versions[0]
    if origin_of(kind.group, kind.kind) in {Origin.CUSTOM, Origin.OWN}:
        version = kind.version
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind.kind}".encode()).digest()[:8]).decode()


def _subresources(kind: ServedKind) -> Iterable[DiscoveredResource]:
    for name in kind.definition.subresources:
        shown, belongs = _ANSWERS.get(name, (kind.kind, None))
        verbs = _VERBS.get(name, ("get", "patch", "update"))
        yield DiscoveredResource(f"{kind.plural}/{name}", shown, kind.namespaced, verbs, answers=belongs)


def _listed(one: DiscoveredResource) -> Document:
    """Return a resource in the first form."""
    shown: Document = {"name": one.name, "singularName": one.singular, "namespaced": one.namespaced}
    if one.answers is not None:
        shown["group"], shown["version"] = one.answers
    shown |= {"kind": one.kind, "verbs": list(one.verbs)}
    if one.short_names:
        shown["shortNames"] = list(one.short_names)
    if one.categories:
        shown["categories"] = list(one.categories)
    if one.storage_hash:
        shown["storageVersionHash"] = one.storage_hash
    return shown


def _discovered(found: list[DiscoveredResource]) -> Iterable[Document]:
    """Resources in the aggregated form, with their subresources inside."""
    for one in found:
        if "/" in one.name:
            continue
        shown: Document = {
            "resource": one.name,
            "responseKind": _response_kind(one),
            "scope": "Namespaced" if one.namespaced else "Cluster",
            "singularResource": one.singular,
            "verbs": list(one.verbs),
        }
        if one.short_names:
            shown["shortNames"] = list(one.short_names)
        if one.categories:
            shown["categories"] = list(one.categories)
        below = [
            {
                "subresource": other.name.partition("/")[2],
                "responseKind": _response_kind(other),
                "verbs": list(other.verbs),
            }
            for other in found
            if other.name.startswith(f"{one.name}/")
        ]
        if below:
            shown["subresources"] = below
        yield shown


def _response_kind(one: DiscoveredResource) -> Document:
    group, api_version = one.answers or ("", "")
    return {"group": group, "version": api_version, "kind": one.kind}


ISSUER_CONFIGURATION: Final = "/.well-known/openid-configuration"
ISSUER_KEYS: Final = "/openid/v1/jwks"

_JWKS: Final = "application/jwk-set+json"
_CACHED: Final = {"cache-control": "public, max-age=3600"}


class Issuer:
    """Shows the public keys."""

    def __init__(self, accounts: AccountKeys) -> None:
        self._accounts = accounts

    async def configuration(self, request: Request) -> Response:
        """`/.well-known/openid-configuration`: what OpenID Connect calls the discovery document."""
        document = {
            "issuer": self._accounts.issuer,
            "jwks_uri": str(request.url.replace(path=ISSUER_KEYS, query="")),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": self._accounts.algorithms,
        }
        return self._shown(document, "application/json")

    async def keys(self, _: Request) -> Response:
        """`/openid/v1/jwks`: the public keys."""
        return self._shown(self._accounts.key_set(), _JWKS)

    def _shown(self, document: dict[str, Any], media_type: str) -> Response:
        if not self._accounts.algorithms:
            return health.no_page()  # no tokens count here
        return Response(orjson.dumps(document), headers=_CACHED, media_type=media_type)
