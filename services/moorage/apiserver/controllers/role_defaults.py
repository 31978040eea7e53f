"""Writes the roles and bindings that every fleet has, when a gateway begins to lead.

What is missing is added. What people have added stays, and so does what they have marked to be left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.authorization.default_roles import default_bindings, default_roles
from moorage.apiserver.kinds import cluster_role, cluster_role_binding
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.rbac.reconciliation import is_left_alone, reconciled_binding, reconciled_role
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Preconditions, Writer

_CALLER: Final = Caller("moorage/gateway")
_ROLE: Final = ServedKind(cluster_role.KIND, cluster_role.KIND.versions[0])
_BINDING: Final = ServedKind(cluster_role_binding.KIND, cluster_role_binding.KIND.versions[0])

Document = dict[str, Any]


class DefaultRoles:
    """Keeps the default roles and bindings.

    Args:
        store: the present objects.
        writer: writes them in the same way as people's writes, so that it is audited.
    """

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    async def write(self) -> None:
        """Write what is missing. Nothing is written if nothing is.

        Raises:
            StatusError: nothing can be written now, or somebody has written the same object at that moment.
        """
        found = await asyncio.gather(*map(self._kept, *zip(*self._expected(), strict=True)), return_exceptions=True)
        for problem in found:
            if isinstance(problem, BaseException):
                raise problem

    def _expected(self) -> Iterator[tuple[ServedKind, Mapping[str, Any]]]:
        yield from ((_ROLE, role) for role in default_roles())
        yield from ((_BINDING, binding) for binding in default_bindings())

    async def _kept(self, kind: ServedKind, expected: Mapping[str, Any]) -> None:
        object_id = ObjectId(kind.kind, "", expected["metadata"]["name"])
        shown = self._store.get(object_id)
        if shown is None:
            await self._writer.create(kind, dict(expected), _CALLER)
            return
        present = shown.document
        if is_left_alone(present):
            return
        wanted = _reconciled(kind, expected, present)
        if wanted is None:
            uid = str(present["metadata"].get("uid", ""))
            await self._writer.delete(kind, object_id, Preconditions(uid=uid), _CALLER)
            await self._writer.create(kind, dict(expected), _CALLER)
        elif wanted != present:
            await self._writer.change(kind, object_id, lambda _: wanted, "update", _CALLER)


def _reconciled(kind: ServedKind, expected: Mapping[str, Any], present: Mapping[str, Any]) -> Document | None:
    return reconciled_role(expected, present) if kind is _ROLE else reconciled_binding(expected, present)
