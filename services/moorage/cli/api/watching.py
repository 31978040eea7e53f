"""A watch that continues after the gateway has restarted, the connection has broken or the version has expired.

It works like kubectl's informers. It watches again from the last version that it has seen, after a pause that doubles
with each try. When the gateway no longer knows the changes since that version, it lists the objects again and reports
the differences from what it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api.client import Client, JsonObject, status_error
from moorage.cli.errors import CliError, ServerError, UnreachableError

PATIENCE: Final = 300.0
"""Seconds that a gateway may be away before the watch ends with an error."""

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0

_AWAY: Final = 0  # stands for no answer at all
_EXPIRED: Final = 410
_FAILED: Final = 500
_TOO_LARGE: Final = 504
"""The answer to a version from the future: the gateway is behind, or the fleet has been created anew."""

_PASSING: Final = frozenset({_AWAY, 429, _FAILED, 502, 503, _TOO_LARGE})
"""Errors that may not occur the next time."""

_BEHIND: Final = 3
"""How many times in a row a gateway may be behind. After that the objects are listed again."""

Change = tuple[str, JsonObject]


@dataclass(eq=False)
class Watching:
    """A watch of one kind, or of one object of it.

    None as the namespace means all. `tell` prints a line about an interruption.
    """

    client: Client
    kind: ServedKind
    namespace: str | None
    _: KW_ONLY
    selector: str = ""
    name: str = ""
    fields: str = ""
    tell: Callable[[str], None]
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    _version: str = field(default="", init=False)
    """The version of the last change that was seen. Empty if the objects must be listed first."""

    _seen: dict[tuple[str, str], JsonObject] = field(default_factory=dict, init=False)
    """Each object as it was seen last, by namespace and name."""

    _pause: float = field(default=FIRST_PAUSE, init=False)
    _broken: float | None = field(default=None, init=False)
    """The time since which the gateway has been away."""

    _behind: int = field(default=0, init=False)

    def start(self) -> list[JsonObject]:
        """List the objects. `changes` begins after them."""
        listed = self.client.list(self.kind, self.namespace, self.selector, name=self.name, fields=self.fields)
        head = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        items = [{**head, **item} for item in listed.get("items") or []]
        self._version = _version(listed)
        self._seen = {_key(item): item for item in items}
        return items

    def changes(self) -> Iterator[Change]:
        """Yield (ADDED | MODIFIED | DELETED, object) without end.

        Raises:
            CliError: the gateway refuses the watch, or has been away for `PATIENCE`.
        """
        while True:
            try:
                yield from self._until_it_ends()
            except (ServerError, UnreachableError) as error:
                self._judge(error)
            self.wait(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _until_it_ends(self) -> Iterator[Change]:
        if not self._version:
            yield from self._differences()
        stream = self.client.watch(
            self.kind,
            self.namespace,
            self._version,
            selector=self.selector,
            name=self.name,
            fields=self.fields,
        )
        if self._broken is not None:
            self.tell("The watch continues.")
        self._broken, self._behind = None, 0
        for word, found in stream:
            self._pause = FIRST_PAUSE
            if word == "ERROR":
                raise status_error(found, _FAILED)
            self._version = _version(found) or self._version
            if word == "BOOKMARK":
                continue
            if word == "DELETED":
                self._seen.pop(_key(found), None)
            else:
                self._seen[_key(found)] = found
            yield word, found

    def _differences(self) -> Iterator[Change]:
        """List the objects, and yield the differences from those that were seen."""
        before = self._seen
        for item in self.start():
            known = before.pop(_key(item), None)
            if known is None:
                yield "ADDED", item
            elif _content(known) != _content(item):
                yield "MODIFIED", item
        yield from (("DELETED", gone) for gone in before.values())

    def _judge(self, error: ServerError | UnreachableError) -> None:
        """Raise errors that will not pass. Print the others, and note what to do next."""
        status = error.status if isinstance(error, ServerError) else _AWAY
        if status == _EXPIRED:
            self._version = ""
            return
        if status not in _PASSING:
            raise error
        self._behind = self._behind + 1 if status == _TOO_LARGE else 0
        if self._behind == _BEHIND:
            self._version = ""
        first = error.message.partition("\n")[0]
        if self._broken is None:
            self._broken = self.clock()
            self.tell(f"The watch was interrupted, trying again: {first}")
        elif self.clock() - self._broken >= PATIENCE:
            raise CliError(f"the watch could not continue for {PATIENCE:.0f} s: {first}") from error


def _key(found: JsonObject) -> tuple[str, str]:
    metadata = found.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _content(found: JsonObject) -> JsonObject:
    """Return the object without its version, which a gateway may give anew to every object when it restarts."""
    metadata = {name: value for name, value in (found.get("metadata") or {}).items() if name != "resourceVersion"}
    return {**found, "metadata": metadata}


def _version(found: JsonObject) -> str:
    return str((found.get("metadata") or {}).get("resourceVersion") or "")
