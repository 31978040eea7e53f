"""`ServiceAccount` (v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, count
from moorage.apiserver.kinds.status import built_in

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records


TOKEN: Final = "token"  # noqa: S105 - the name of a subresource
"""The subresource that gives out tokens."""


class ServiceAccountKind(Untyped):
    """A service account: the identity of a program. Its tokens are given out by its subresource `token`."""

    kind = built_in.SERVICE_ACCOUNT
    plural = "serviceaccounts"
    short_names = ("sa",)
    namespaced = True
    deleted_is_returned = True
    has_generation = False
    order = 102
    columns = (TableColumn("SECRETS", count("secrets")), AGE)
    api_columns = (AGE,)
    in_each_namespace = (built_in.DEFAULT_ACCOUNT,)

    @property
    @override
    def subresources(self) -> tuple[str, ...]:
        return (*super().subresources, TOKEN)

    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        """See `Kind`. It is as old as its namespace, and another one in another namespace of the same name."""
        from moorage.apiserver.kinds.status.namespaces import identity
        from moorage.decide.kubernetes.hashes import uid_of

        of = identity(object_id.namespace, records)
        metadata = {**of, "name": object_id.name, "namespace": object_id.namespace, "uid": uid_of(self.kind, of["uid"])}
        return {"apiVersion": "v1", "kind": self.kind, "metadata": metadata}

    @override
    def refusal(self, name: str, change: str) -> str:
        return (
            "every namespace has this service account" if name in self.in_each_namespace and change == "deleted" else ""
        )


KIND = ServiceAccountKind()
