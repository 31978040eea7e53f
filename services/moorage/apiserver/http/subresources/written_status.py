"""The subresource `status` of targets and pods. The conditions in it become reports."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.apiserver.admission.status_reports import conditions_of, reports_in
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.writing.object_records import Caller

_SHOWN_WITHIN: Final = 1.0  # seconds for which the answer waits for the report to be accepted

Document = dict[str, Any]


async def report(
    backend: Backend, path: ResourcePath, shown: Mapping[str, Any], wanted: Mapping[str, Any], caller: Caller
) -> ShownObject:
    """Report the conditions in a status that was written. Returns the object as it is shown after that.

    Args:
        backend: the objects.
        path: names the object.
        shown: the object before.
        wanted: the object with the written status.
        caller: the source of the reports.

    Raises:
        StatusError: a condition is invalid, or nothing can be written now.
    """
    now = backend.clock.now()
    cluster = backend.store.cluster
    found = reports_in(path.object_id, shown, wanted, source=caller.actor, now=now, cluster=cluster)
    if found:
        await backend.writer.report(found, caller)
        said = {one.type: one.status.value for one in found}

        def accepted() -> bool:
            present = backend.store.get(path.object_id)
            if present is None:
                return True
            known = conditions_of(present.document)
            return all(known.get(name, {}).get("status") == status for name, status in said.items())

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SHOWN_WITHIN):
                while not accepted():
                    await backend.store.history.wait()
    return backend.present(path)


async def write_pod(
    backend: Backend,
    path: ResourcePath,
    change: Callable[[Document], Document],
    caller: Caller,
    *,
    dry_run: bool,
) -> ShownObject:
    """Write the status of a pod, also of one that a controller makes. Nothing but its conditions counts.

    Raises:
        StatusError: 404 if there is no such pod, 409 if it is not the expected one, and as `report`.
    """
    present = backend.present(path)
    shown = present.document
    wanted = change(dict(shown))
    metadata = wanted["metadata"]
    if metadata.get("uid") not in {None, "", shown["metadata"].get("uid")}:
        raise api_errors.conflict("", path.kind.plural, path.name)
    if metadata.get("resourceVersion") not in {None, "", str(present.version)}:
        raise api_errors.conflict("", path.kind.plural, path.name)
    return present if dry_run else await report(backend, path, shown, wanted, caller)
