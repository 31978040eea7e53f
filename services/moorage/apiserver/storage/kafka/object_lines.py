"""The log lines about what is written for people: each change that the audit has."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from moorage.apiserver.storage.durable_log import Write
from moorage.runtime.process.decision_log import DecisionLog
from moorage_schemas.dead_letter import Audited
from moorage_schemas.keys import ResourceKey

_BRAKES: Final = frozenset({"EvictionPause", "EvictionBudget", "Maintenance", "MoorageConfiguration"})
"""The kinds whose objects change what is decided about everything else."""

_REMOVALS: Final = frozenset({"delete", "deletecollection"})


def object_lines(log: DecisionLog, writes: Sequence[Write]) -> None:
    """Write the lines about committed writes, soon."""
    found = [write for write in writes if isinstance(write.event, Audited)]
    if found and log.level <= logging.INFO:
        log.later(lambda: _describe(log, found))


def _describe(log: DecisionLog, writes: Sequence[Write]) -> None:
    for write in writes:
        audited = write.event
        if not isinstance(audited, Audited):
            continue
        kind = ResourceKey.parse(audited.resource).kind
        event, level = "object.written", logging.INFO if kind in _BRAKES else logging.DEBUG
        if kind == "EvictionPause":
            event = "pause.ended" if audited.verb in _REMOVALS else "pause.declared"
        if log.wants(event, level):
            found = {
                "service": "gateway",
                "key": audited.resource,
                "verb": audited.verb,
                "user": audited.user,
                "actor": audited.actor,
                "event_id": write.meta.causation_id,
                "correlation": write.meta.correlation,
            }
            log.write(event, found, level)
