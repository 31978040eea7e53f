"""`ServiceAccount` (v1)."""

from __future__ import annotations

from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, TableColumn, count


class ServiceAccountKind(Untyped):
    """A service account. It is stored, and means nothing: Moorage has no identities yet."""

    kind = "ServiceAccount"
    plural = "serviceaccounts"
    singular = "serviceaccount"
    short_names = ("sa",)
    namespaced = True
    deleted_is_returned = True
    order = 102
    columns = (TableColumn("SECRETS", count("secrets")), AGE)
    api_columns = (AGE,)


KIND = ServiceAccountKind()
