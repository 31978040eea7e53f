"""What somebody wants to know of a change of one target, and the requests that make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.console import changes
from moorage.console.changes import ApiWrite
from moorage.console.errors import PageError, bad_request
from moorage.console.kinds import ApiKind
from moorage.console.names import BINDING, NODE, TARGETS, target_prefix
from moorage.console.views import PageView, required
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.workload_kinds import POD

QUESTIONS: Final = {
    "taint": "it gets a taint",
    "untaint": "a taint is removed",
    "cordon": "it is cordoned",
    "uncordon": "it is uncordoned",
    "drain": "it is drained",
    "delete": "it is deleted",
    "silent": "nothing is heard of it any more",
    "failed": "it is reported as not ready",
}
"""What may be asked, in words that go on from "what if"."""

OUTAGES: Final = {"silent": "Unknown", "failed": "False"}
"""What happens by itself: there is nothing to apply."""

_MOST: Final = 999  # pods of a node that is drained

Asked = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """A change of one target."""

    kind: str
    name: str
    what: str
    writes: tuple[ApiWrite, ...] = ()
    status: str = ""
    """How the target fails, if it does."""

    skipped: tuple[str, ...] = ()
    """The pods that a drain leaves, because their DaemonSet would bring them back."""

    @property
    def question(self) -> dict[str, Any]:
        """What the query worker is asked."""
        writes = [
            {"method": one.method, "path": one.path, "body": one.body, "contentType": one.content_type}
            for one in self.writes
        ]
        failing = {"failing": [f"{self.kind}/{self.name}"], "status": self.status} if self.status else {}
        return {"writes": writes, **failing}


def questions_of(kind: str) -> list[tuple[str, str]]:
    """What may be asked of targets of a kind."""
    missing = set() if kind == NODE else {"drain"}
    if not changes.can_be_cordoned(kind):
        missing |= {"cordon", "uncordon"}
    return [(word, text) for word, text in QUESTIONS.items() if word not in missing]


async def planned(view: PageView, asked: Asked) -> TargetPlan:
    """Return the change that an address or a form describes, for the target as it is now.

    Raises:
        PageError: 400 if it is wrong, 403 if the user may not get the target, 404 if there is none.
    """
    kind, name, what = required(asked, "kind"), required(asked, "name"), required(asked, "what")
    if kind not in TARGETS:
        raise bad_request(f"kind: invalid value {kind[:63]!r}: must be one of {', '.join(TARGETS)}")
    words = [word for word, _ in questions_of(kind)]
    if what not in words:
        raise bad_request(f"what: invalid value {what[:63]!r}: must be one of {', '.join(words)}")
    document = await changes.target_of(view, kind, name)
    if what in OUTAGES:
        return TargetPlan(kind, name, what, status=OUTAGES[what])
    if what == "drain":
        return await _drained(view, kind, name, document)
    return TargetPlan(kind, name, what, (_write(view.kinds.named(kind), name, what, document, asked),))


def first_write(view: PageView, document: Mapping[str, Any], asked: Asked) -> ApiWrite:
    """Return the request that patches a target as it is now, in a plan that begins with a patch.

    Raises:
        PageError: 400 if it does not fit the target any more.
    """
    kind, what = view.kinds.named(required(asked, "kind")), required(asked, "what")
    return _write(kind, required(asked, "name"), "cordon" if what == "drain" else what, document, asked)


def _write(kind: ApiKind, name: str, what: str, document: Mapping[str, Any], asked: Asked) -> ApiWrite:
    if what in {"cordon", "uncordon"}:
        return changes.cordoned(kind, document, cordon=what == "cordon")
    if what == "delete":
        return changes.write_of(kind, "delete", name=name)
    key, effect, value = required(asked, "key"), required(asked, "effect"), asked.get("value", "").strip()
    if what == "untaint":
        return changes.tainted(kind, document, f"{key}:{effect}-")
    return changes.tainted(kind, document, f"{key}={value}:{effect}" if value else f"{key}:{effect}")


async def _drained(view: PageView, kind: str, name: str, document: Mapping[str, Any]) -> TargetPlan:
    """Cordon a node, and evict its pods, as `kubectl drain --ignore-daemonsets --force` does."""
    ending, pods = f":{target_prefix(kind, name)}", view.kinds.named(POD)
    writes, skipped = [changes.cordoned(view.kinds.named(kind), document, cordon=True)], []
    names = (await view.reader.names(BINDING)).items()
    bound = sorted((place, one.removesuffix(ending)) for place, own in names for one in own if one.endswith(ending))
    for namespace, pod_name in bound:
        if not await view.rights.may("get", POD, namespace, pod_name):
            continue
        pod = await view.reader.get(POD, namespace, pod_name)
        if pod is None:
            continue
        owners = at(pod, "metadata", "ownerReferences") or ()
        if any(one.get("controller") and one.get("kind") == "DaemonSet" for one in owners):
            skipped.append(f"{namespace}/{pod_name}")
            continue
        metadata = {"name": pod_name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        writes.append(changes.write_of(pods, "create", namespace, pod_name, "eviction", body=body))
    if len(writes) > _MOST:
        raise PageError(422, f"{name} has {len(writes) - 1} pods: at most {_MOST - 1} can be evicted at once here")
    return TargetPlan(kind, name, "drain", tuple(writes), skipped=tuple(skipped))
