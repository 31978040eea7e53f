"""Lists in parts (`limit` and `continue`): each part continues the list as it was when the first one was read.

The first part keeps the list for some minutes: references to what is kept of the objects, which costs little. A gateway
that does not have it goes on with the present objects if nothing of the list has changed in the meantime. Otherwise the
answer is 410, with a token that continues with the present objects.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from moorage.apiserver.machinery.api_errors import StatusError, bad_request
from moorage.apiserver.machinery.openapi.json_values import ParseError
from moorage.apiserver.machinery.openapi.parsing import parse as parse_json
from moorage.apiserver.storage.history import TooOldError
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.storage.store import FleetObjects

_FORM: Final = "meta.k8s.io/v1"
_BASE64: Final = string.ascii_letters + string.digits + "-_"
_PRESENT: Final = -1
"""The version in a token that continues with the present objects."""

_KEPT: Final = 64  # lists whose rest is kept
_KEPT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Token:
    """Where an earlier part ended."""

    version: int
    """The resource version of the list, or `PRESENT`."""

    start: tuple[str, str]
    """The next object has at least this namespace and name."""

    @property
    def text(self) -> str:
        """As clients get it."""
        namespace, name = self.start
        found = orjson.dumps({"v": _FORM, "rv": self.version, "start": f"{namespace}/{name}"})
        return base64.urlsafe_b64encode(found).decode().rstrip("=")


def parse(text: str) -> Token:
    """Read a token. Raises StatusError: 400 if it is none."""
    try:
        text.encode("ascii")
        found = parse_json(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)).document
    except (binascii.Error, UnicodeEncodeError):
        good = len(text) - len(text.lstrip(_BASE64))
        if good == len(text):  # what is left of it is too short
            good -= good % 4
        raise _no_token(f"illegal base64 data at input byte {good}") from None
    except ParseError as error:
        raise _no_token(str(error).removeprefix("json parse error: ")) from None
    form = found.get("v", "") if isinstance(found, dict) else ""
    if form != _FORM:
        raise _no_token(f"server does not recognize this encoded version {form}")
    version, start = found.get("rv"), found.get("start")
    if type(version) is not int or not isinstance(start, str) or version < _PRESENT:
        raise _no_token("it has no version and no start")
    namespace, _, name = start.partition("/")
    return Token(version, (namespace, name))


def _no_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


@dataclass(frozen=True, slots=True)
class ListSnapshot:
    """The objects of a list, in their order."""

    version: int
    """Its resource version."""

    objects: Sequence[ShownObject]
    start: int = 0
    """The number of the first object of this part."""


class Snapshots:
    """Lists as they were when their first part was read."""

    def __init__(self, store: FleetObjects) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, str, int], tuple[float, Sequence[ShownObject]]] = OrderedDict()

    def present(self, kind: str, namespace: str) -> ListSnapshot:
        """Return all objects of a kind as they are now."""
        return ListSnapshot(self._store.version, self._store.all(kind, namespace))

    def keep(self, kind: str, namespace: str, snapshot: ListSnapshot, now: float) -> None:
        """Keep a list whose next part may be requested. `now` is in seconds of a monotonic clock."""
        key = (kind, namespace, snapshot.version)
        self._kept[key] = (now, snapshot.objects)
        self._kept.move_to_end(key)
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) <= _KEPT and now - self._kept[oldest][0] <= _KEPT_SECONDS:
                return
            del self._kept[oldest]

    def at(self, kind: str, namespace: str, version: int) -> ListSnapshot | None:
        """Return the list as it was at a resource version. None if that is no longer known."""
        kept = self._kept.get((kind, namespace, version))
        if kept is not None:
            return ListSnapshot(version, kept[1])
        if version <= self._store.version and self._unchanged_since(kind, namespace, version):
            return ListSnapshot(version, self.present(kind, namespace).objects)
        return None

    def rest(self, kind: str, namespace: str, token: Token) -> ListSnapshot:
        """Return the list that a token continues, from where it continues.

        Raises:
            StatusError: 410 if the list as it was is no longer known.
        """
        if token.version == _PRESENT:
            found: ListSnapshot | None = self.present(kind, namespace)
        else:
            found = self.at(kind, namespace, token.version)
        if found is None:
            raise _expired(token)
        low, high = 0, len(found.objects)
        while low < high:  # the first object that does not come before the start
            middle = (low + high) // 2
            if _place(found.objects[middle]) < token.start:
                low = middle + 1
            else:
                high = middle
        return ListSnapshot(found.version, found.objects, low)

    def _unchanged_since(self, kind: str, namespace: str, version: int) -> bool:
        history = self._store.history
        try:
            changes = history.since(history.position(version), kind)
        except TooOldError:
            return False
        return not any(namespace in {"", change.object_id.namespace} for change in changes)


def token_for(version: int, found: ShownObject) -> str:
    """Return the token of a part that begins with an object."""
    return Token(version, _place(found)).text


def _place(found: ShownObject) -> tuple[str, str]:
    metadata = found.document["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])


def _expired(token: Token) -> StatusError:
    why = (
        "The provided continue parameter is too old to display a consistent list result. Start a new list, or go on "
        "with the token of this answer, which shows the present objects."
    )
    return StatusError(410, why, reason="Expired", token=Token(_PRESENT, token.start).text)
