"""Parts of the cluster that Moorage cannot carry. They are skipped, with a warning, a metric and an event.

Its writers decide what an object contains, so no object may stop a bridge.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import structlog

from moorage.bridges.engine.cluster_events import WARNING, Regarding, event
from moorage.bridges.engine.metrics import SKIPPED

_log = structlog.get_logger(__name__)

SKIPPED_REASON: Final = "MoorageSkipped"
"""The reason of the events."""

_REMEMBERED: Final = 4096


class Skips:
    """The parts that are skipped. Each is reported once, as long as the same is skipped of an object."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Regarding, str], str] = OrderedDict()
        self._tell: Callable[[dict[str, Any]], None] | None = None

    def tell(self, send: Callable[[dict[str, Any]], None]) -> None:
        """Send the events, also those of what was skipped before."""
        self._tell = send
        for (about, _), message in self._known.items():
            send(event(about, WARNING, SKIPPED_REASON, message))

    def note(self, about: Regarding, what: str, message: str) -> None:
        """Note that something of an object is skipped.

        Args:
            about: the object.
            what: the kind of what is skipped, such as `condition`: the metric's label.
            message: the sentence of the event. Empty if nothing is skipped now.
        """
        key = (about, what)
        if self._known.get(key, "") == message:
            return
        self._known.pop(key, None)
        if not message:
            return
        self._known[key] = message
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        SKIPPED.labels(what).inc()
        _log.warning(
            "bridge.skipped", what=what, kind=about.kind, namespace=about.namespace, name=about.name, why=message
        )
        if self._tell is not None:
            self._tell(event(about, WARNING, SKIPPED_REASON, message))
