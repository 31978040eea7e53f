"""A watch that continues after the gateway has restarted, the connection has broken or the version has expired.

It works like kubectl's informers. It watches again from the last version that it has seen, after a pause that doubles
with each try. When the gateway no longer knows the changes since that version, it lists the objects again and reports
the differences from what it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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


class Watching:
    """A watch of one kind, or of one object of it.

    Args:
        client: the gateway.
        kind: the kind to watch.
        namespace: None means all namespaces.
        selector: a label selector.
        name: the name of the one object. Empty for all.
        fields: a field selector.
        tell: prints a line about an interruption.
        wait: waits for some seconds. The default sleeps.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        client: Client,
        kind: ServedKind,
        namespace: str | None,
        *,
        selector: str = "",
        name: str = "",
        fields: str = "",
        tell: Callable[[str], None],
        wait: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._selector = selector
        self._name = name
        self._fields = fields
        self._report = tell
        self._wait = wait or time.sleep
        self._clock = clock
        self._version = ""
        """The version of the last change that was seen. Empty if the objects must be listed first."""
        self._seen: dict[tuple[str, str], JsonObject] = {}
        """Each object as it was seen last, by namespace and name."""
        self._pause = FIRST_PAUSE
        self._broken: float | None = None
        """The time since which the gateway has been away."""
        self._behind = 0

    def start(self) -> list[JsonObject]:
        """List the objects. `changes` begins after them."""
        listed = self._client.list(self._kind, self._namespace, self._selector, name=self._name, fields=self._fields)
        head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
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
            self._wait(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _until_it_ends(self) -> Iterator[Change]:
        if not self._version:
            yield from self._differences()
        stream = self._client.watch(
            self._kind,
            self._namespace,
            self._version,
            selector=self._selector,
            name=self._name,
            fields=self._fields,
        )
        if self._broken is not None:
            self._report("The watch continues.")
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
            self._broken = self._clock()
            self._report(f"The watch was interrupted, trying again: {first}")
        elif self._clock() - self._broken >= PATIENCE:
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
