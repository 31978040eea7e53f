"""Changes of targets, as the requests of the API that make them.

What is applied and what is simulated are the same requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moorage.core.apimachinery.unstructured import at
from moorage.core.taints.dialects.karmada import UNSCHEDULABLE
from moorage.core.taints.dialects.table import DIALECTS
from moorage.core.taints.kubectl_syntax import TaintSpecError, apply_specs, parse_taints
from moorage.gateway.console.fleet_index import MANAGED_CLUSTER, NODE
from moorage.gateway.console.own_api import api_path
from moorage.gateway.console.rights import Rights, kind_named
from moorage.gateway.console.views import PageView
from moorage.gateway.errors import StatusError, bad_request
from moorage.gateway.http.access import forbidden
from moorage.gateway.http.request_attributes import attributes_of
from moorage.kinds.status.records import ObjectId
from moorage_schemas.taint import Taint, TaintEffect

MERGE: Final = "application/merge-patch+json"
_TRIES: Final = 5
_CONFLICT: Final = 409

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiWrite:
    """One request that changes something."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


def object_path(kind: str, namespace: str, name: str, subresource: str = "") -> str:
    """The path of an object in the API."""
    found = kind_named(kind)
    root = ("apis", found.group) if found.group else ("api",)
    within = ("namespaces", namespace) if namespace else ()
    return api_path(*root, found.versions[0], *within, found.plural, name, subresource)


def target_of(view: PageView, kind: str, name: str) -> dict[str, Any]:
    """A target.

    Raises:
        StatusError: 403 if the user may not get it, 404 if there is none.
    """
    view.rights.check("get", kind, "", name)
    shown = view.store.get(ObjectId(kind, "", name))
    if shown is None:
        raise StatusError(404, f'{kind_named(kind).plural} "{name}" not found')
    return shown.document


def tainted(kind: str, document: Document, spec: str) -> ApiWrite:
    """What adds a taint (`key=value:Effect`) or removes one (`key:Effect-`).

    Raises:
        StatusError: 400 if the spec is wrong, or does not fit the taints that the target has. The message is kubectl's.
    """
    name = str(at(document, "metadata", "name"))
    present = [Taint.model_validate(one, extra="ignore") for one in at(document, "spec", "taints") or ()]
    try:
        update = apply_specs(f"{kind.lower()} {name}", present, parse_taints([spec], DIALECTS[kind]))
    except TaintSpecError as error:
        raise bad_request(str(error)) from None
    # A taint that is new has no timeAdded, because the server sets it.
    after = [
        {key: value for key, value in one.model_dump(mode="json").items() if value not in (None, "")}
        for one in update.taints
    ]
    return _patch(kind, name, {"spec": {"taints": after}})


def can_be_cordoned(kind: str) -> bool:
    """Whether targets of a kind can be cordoned."""
    return kind != MANAGED_CLUSTER


def is_cordoned(kind: str, document: Document) -> bool:
    """Whether a target is cordoned."""
    if kind == NODE:
        return bool(at(document, "spec", "unschedulable"))
    return any(one.get("key") == UNSCHEDULABLE for one in at(document, "spec", "taints") or ())


def cordoned(kind: str, document: Document, *, cordon: bool) -> ApiWrite:
    """What cordons a target, or uncordons it.

    Raises:
        StatusError: 400 if targets of that kind cannot be cordoned.
    """
    name = str(at(document, "metadata", "name"))
    if kind == NODE:
        return _patch(kind, name, {"spec": {"unschedulable": cordon or None}})
    if not can_be_cordoned(kind):
        raise bad_request("managed clusters cannot be cordoned: taint them with the effect NoSelect instead")
    taints = [one for one in at(document, "spec", "taints") or () if one.get("key") != UNSCHEDULABLE]
    own = [{"key": UNSCHEDULABLE, "effect": TaintEffect.NO_SCHEDULE.value}] if cordon else []
    return _patch(kind, name, {"spec": {"taints": [*taints, *own]}})


def nothing(kind: str, name: str) -> ApiWrite:
    """What changes nothing of a target, but needs the right to change it."""
    return _patch(kind, name, {})


def _patch(kind: str, name: str, change: dict[str, Any]) -> ApiWrite:
    return ApiWrite("PATCH", object_path(kind, "", name), change, MERGE)


def missing_right(rights: Rights, writes: Sequence[ApiWrite]) -> str:
    """Why the user may not make these requests, in the words of the API. Empty if the user may."""
    for write in writes:
        asked = attributes_of(write.method, write.path, {})
        found = rights.authorizer.authorize(rights.user, asked)
        if not found.allowed:
            return forbidden(rights.user, asked, found.reason).message
    return ""


async def send(view: PageView, write: ApiWrite) -> dict[str, Any]:
    """Send a request through the API, and return the answer.

    Raises:
        StatusError: the API refuses it.
    """
    answer = await view.api.call(write.method, write.path, body=write.body, content_type=write.content_type)
    answer.check()
    return answer.document


async def change_target(view: PageView, kind: str, name: str, make: Any) -> None:
    """Change a target by what is made of it as it is. It is made anew if somebody else was faster.

    Args:
        view: sends it.
        kind: of the target.
        name: of the target.
        make: returns the request for the target.

    Raises:
        StatusError: the API refuses it, or others change the target again and again.
    """
    for left in reversed(range(_TRIES)):
        document = target_of(view, kind, name)
        write: ApiWrite = make(document)
        version = at(document, "metadata", "resourceVersion")
        body = {**write.body, "metadata": {"resourceVersion": version}}
        try:
            await send(view, ApiWrite(write.method, write.path, body, write.content_type))
        except StatusError as error:
            if error.code != _CONFLICT or not left:
                raise
        else:
            return
