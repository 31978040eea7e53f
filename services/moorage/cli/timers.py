"""Timers as objects: the gateway does not serve them, so they are read from their topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from moorage.cli import where
from moorage.cli.errors import CliError
from moorage.cli.reading import read_table
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import TIMERS


def objects(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The timers that are set, by their ids, earliest first; all unless some are named.

    Raises:
        CliError: one that is named is not set, or Kafka does not answer.
    """
    bootstrap, prefix = where.kafka()
    table = asyncio.run(read_table(bootstrap, prefix, TIMERS))
    found: list[dict[str, Any]] = [
        {
            "apiVersion": "moorage.io/v1alpha1",
            "kind": "Timer",
            "metadata": {"name": event.id},
            "status": event.model_dump(mode="json"),
        }
        for seen in table.values()
        if isinstance(event := seen.event, SetTimer) and event.deadline is not None
    ]
    found.sort(key=lambda timer: (timer["status"]["deadline"], timer["metadata"]["name"]))
    by_name = {timer["metadata"]["name"]: timer for timer in found}
    for name in names:
        if name not in by_name:
            raise CliError(f'timers.moorage.io "{name}" not found', prefix="Error from server (NotFound): ")
    return [by_name[name] for name in names] if names else found
