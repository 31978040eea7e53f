"""Changes of targets, as the requests of the API that make them.

What is applied and what is simulated are the same requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moorage.console.api import JSON
from moorage.console.host import PageError, bad_request
from moorage.console.kinds import MANAGED_CLUSTER, NODE, ApiKind
from moorage.console.rights import Rights
from moorage.console.views import PageView
from moorage.decide.kubernetes.attributes import Attributes
from moorage.decide.kubernetes.unstructured import at, name_of
from moorage.decide.taints.dialects.karmada import UNSCHEDULABLE
from moorage.decide.taints.dialects.table import DIALECTS
from moorage.decide.taints.kubectl_syntax import TaintSpecError, apply_specs, parse_taints
from moorage_schemas.taint import Taint, TaintEffect

MERGE: Final = "application/merge-patch+json"
_TRIES: Final = 5
_CONFLICT: Final = 409
_METHODS: Final = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiWrite:
    """One request that changes something."""

    method: str
    path: str
    asked: Attributes
    """The attributes of its access review."""

    body: Any = None
    content_type: str = JSON


def write_of(
    kind: ApiKind, verb: str, namespace: str = "", name: str = "", subresource: str = "", *, body: Any = None
) -> ApiWrite:
    """Return the request that creates, patches or deletes an object. `verb` is `create`, `patch` or `delete`."""
    asked = kind.asked(verb, namespace, name, subresource)
    form = MERGE if verb == "patch" else JSON
    return ApiWrite(_METHODS[verb], kind.path(namespace, name, subresource), asked, body, form)


async def target_of(view: PageView, kind: str, name: str) -> dict[str, Any]:
    """Return a target. Raises PageError: 403 if the user may not get it, 404 if it does not exist."""
    await view.rights.check("get", kind, "", name)
    found = await view.reader.get(kind, "", name)
    if found is None:
        raise PageError(404, f'{view.kinds.named(kind).plural} "{name}" not found')
    return found


def tainted(kind: ApiKind, document: Document, spec: str) -> ApiWrite:
    """Return the request that adds a taint (`key=value:Effect`) or removes one (`key:Effect-`).

    Raises:
        PageError: 400 if the spec is wrong, or does not fit the taints that the target has. The message is kubectl's.
    """
    name = name_of(document)
    present = [Taint.model_validate(one, extra="ignore") for one in at(document, "spec", "taints") or ()]
    try:
        update = apply_specs(f"{kind.kind.lower()} {name}", present, parse_taints([spec], DIALECTS[kind.kind]))
    except TaintSpecError as error:
        raise bad_request(str(error)) from None
    # A taint that is new has no timeAdded, because the server sets it.
    after = [
        {key: value for key, value in one.model_dump(mode="json").items() if value not in (None, "")}
        for one in update.taints
    ]
    return write_of(kind, "patch", name=name, body={"spec": {"taints": after}})


def can_be_cordoned(kind: str) -> bool:
    """Return whether targets of a kind can be cordoned."""
    return kind != MANAGED_CLUSTER


def is_cordoned(kind: str, document: Document) -> bool:
    """Return whether a target is cordoned."""
    if kind == NODE:
        return bool(at(document, "spec", "unschedulable"))
    return any(one.get("key") == UNSCHEDULABLE for one in at(document, "spec", "taints") or ())


def cordoned(kind: ApiKind, document: Document, *, cordon: bool) -> ApiWrite:
    """Return the request that cordons a target, or uncordons it.

    Raises:
        PageError: 400 if targets of that kind cannot be cordoned.
    """
    name = name_of(document)
    if kind.kind == NODE:
        return write_of(kind, "patch", name=name, body={"spec": {"unschedulable": cordon or None}})
    if not can_be_cordoned(kind.kind):
        raise bad_request("managed clusters cannot be cordoned: taint them with the effect NoSelect instead")
    taints = [one for one in at(document, "spec", "taints") or () if one.get("key") != UNSCHEDULABLE]
    own = [{"key": UNSCHEDULABLE, "effect": TaintEffect.NO_SCHEDULE.value}] if cordon else []
    return write_of(kind, "patch", name=name, body={"spec": {"taints": [*taints, *own]}})


async def missing_right(rights: Rights, writes: Sequence[ApiWrite]) -> str:
    """Return why the user may not make these requests, in the words of the API. Empty if the user may."""
    for write in writes:
        if why := await rights.missing(write.asked):
            return why
    return ""


async def send(view: PageView, write: ApiWrite) -> dict[str, Any]:
    """Send a request through the API, and return the answer. Raises PageError if the API refuses it."""
    answer = await view.api.call(write.method, write.path, body=write.body, content_type=write.content_type)
    answer.check()
    return answer.document


async def change_target(view: PageView, kind: str, name: str, make: Any) -> None:
    """Change a target by a request that is made from its present state. It is made anew after a conflict.

    Raises:
        PageError: the API refuses it, or others change the target again and again.
    """
    for left in reversed(range(_TRIES)):
        document = await target_of(view, kind, name)
        write: ApiWrite = make(document)
        version = at(document, "metadata", "resourceVersion")
        body = {**write.body, "metadata": {"resourceVersion": version}}
        try:
            await send(view, replace(write, body=body))
        except PageError as error:
            if error.code != _CONFLICT or not left:
                raise
        else:
            return
