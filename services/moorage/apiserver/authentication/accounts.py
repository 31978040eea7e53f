"""The service accounts that are there, as the gateway shows them."""

from __future__ import annotations

from moorage.apiserver.authentication.account_tokens import AccountClaims, ObjectOfToken
from moorage.apiserver.authentication.refusals import UnknownYetError
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.store import Store


class StoredAccounts:
    """Looks tokens' objects up in the store. A token ends with its account, and with what it depends on.

    Args:
        store: the present objects.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def problem(self, claims: AccountClaims) -> str:
        """See `AccountLookup`."""
        if not self._store.ready:
            raise UnknownYetError("the gateway is not ready: it is still reading its tables")
        for one in (claims.account, *claims.bound):
            if problem := self._problem_of(one, claims.namespace):
                return problem
        return ""

    def _problem_of(self, one: ObjectOfToken, namespace: str) -> str:
        uid = self.uid(one.kind, namespace, one.name)
        if uid == one.uid:
            return ""
        what = f"the {one.kind} {one.name!r} on which the token depends"
        return f"{what} is not there any more" if not uid else f"{what} is another one by now"

    def uid(self, kind: str, namespace: str, name: str) -> str:
        """Return the uid of an object. Empty if it is not there."""
        place = "" if kind == "Node" else namespace
        shown = self._store.get(ObjectId(kind, place, name))
        return "" if shown is None else str(shown.document["metadata"].get("uid", ""))
