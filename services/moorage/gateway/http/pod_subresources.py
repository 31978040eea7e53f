"""The subresources of pods that are only written: `eviction` (policy/v1) and `binding` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.core.apimachinery.field_errors import FieldError, not_supported, required
from moorage.gateway import errors
from moorage.gateway.admission.deletion import DeleteOptions
from moorage.gateway.errors import bad_request
from moorage.gateway.evictions import Evictions
from moorage.gateway.http.deletion import options_of
from moorage.gateway.writer import Caller, Preconditions, Writer
from moorage.kinds.status.records import ObjectId

Document = Mapping[str, Any]

SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer to both."""


async def evict(object_id: ObjectId, sent: Document, evictions: Evictions, caller: Caller, *, dry_run: bool) -> None:
    """Evict a pod as an `Eviction` says.

    Raises:
        StatusError: the eviction is of another pod, or is refused.
    """
    _check_name(object_id, sent, "Eviction")
    sent_options = sent.get("deleteOptions") or {}
    if not isinstance(sent_options, Mapping):
        raise bad_request("deleteOptions: must be an object")
    options = options_of(sent_options, {})
    wanted = sent_options.get("preconditions") or {}
    preconditions = Preconditions(str(wanted.get("uid") or ""), str(wanted.get("resourceVersion") or ""))
    tried = dry_run or sent_options.get("dryRun") == ["All"]
    chosen = DeleteOptions(options.propagation, options.grace_period)
    await evictions.evict(object_id, preconditions, caller, options=chosen, dry_run=tried)


async def bind(object_id: ObjectId, sent: Document, writer: Writer, caller: Caller, *, dry_run: bool) -> None:
    """Bind a pod to the node that a `Binding` names.

    Raises:
        StatusError: the binding is of another pod, names no node, or is refused.
    """
    _check_name(object_id, sent, "Binding")
    target = sent.get("target") or {}
    found: list[FieldError] = []
    if target.get("kind", "Node") not in {"", "Node"}:
        found.append(not_supported("target.kind", target.get("kind"), ["Node", "<empty>"]))
    if not target.get("name"):
        found.append(required("target.name", ""))
    if found:
        raise errors.invalid("", "Binding", object_id.name, found)
    uid = str((sent.get("metadata") or {}).get("uid") or "")
    await writer.bind(object_id, str(target["name"]), uid, caller, dry_run=dry_run)


def _check_name(object_id: ObjectId, sent: Document, kind: str) -> None:
    metadata = sent.get("metadata") or {}
    if metadata.get("name", object_id.name) != object_id.name:
        raise bad_request(f"name in URL does not match name in {kind} object")
    if (metadata.get("namespace") or object_id.namespace) != object_id.namespace:
        raise bad_request(f"namespace in URL does not match namespace in {kind} object")
