"""Collects the steps in a recording: what each process, or each owner of a partition, did from its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from moorage.insight.replay.recording import RecordedRecord, Recording, RecordingError
from moorage.runtime.engine.journal import STEPS_HEADER, steps_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.journal import StepsTaken
from moorage_schemas.topics import JOURNAL


@dataclass(frozen=True, slots=True)
class RunOutput:
    """One transaction, found by its first record."""

    first: RecordedRecord
    partition: int
    """The partition of the owner that wrote it."""

    records: int
    """The number of its records."""


@dataclass(slots=True)
class Run:
    """The steps of one journal."""

    name: str
    entries: dict[int, Any] = field(default_factory=dict)
    """The entries by number."""

    transactions: dict[int, RunOutput] = field(default_factory=dict)
    """The transactions that were written, by the number of their decision."""

    service: str = ""
    """The service of the run; empty until a record names it."""

    def put(self, parts: Any) -> None:
        """Add entries. An entry that was written twice counts once. Raises ValueError if these are not entries."""
        for first, entries in parts:
            for place, entry in enumerate(entries):
                self.entries[int(first) + place] = entry


class _Recorded(Settings):
    """The settings of a recorded run. Today's environment has no effect on them."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only the values that are passed in."""
        return (init_settings,)


def settings_of(head: Mapping[str, Any]) -> Settings:
    """Return the settings of a run, from its first entry.

    Raises:
        RecordingError: the settings are not those of this version.
    """
    try:
        return _Recorded(**head["settings"], partitions=head["partitions"])
    except (ValidationError, KeyError, TypeError) as error:
        raise RecordingError(f"the settings of a run cannot be read: {error}") from None


def runs_of(recording: Recording) -> list[Run]:
    """Return the runs that have steps in the recording, ordered by name.

    Raises:
        RecordingError: steps cannot be read.
    """
    runs: dict[str, Run] = {}
    for record in recording.records():
        header = record.header(STEPS_HEADER)
        where = f"{record.topic}/{record.partition}@{record.offset}"
        try:
            if header:
                found = orjson.loads(header)
                run = runs.setdefault(found["run"], Run(found["run"]))
                run.service = run.service or record.header("ce_source").decode().removeprefix("moorage/")
                decision, partition, count = found["tx"]
                run.transactions[decision] = RunOutput(record, partition, count)
                run.put(found["steps"])
            if record.topic == JOURNAL.short and record.value is not None:
                taken = StepsTaken.model_validate_json(record.value)
                run = runs.setdefault(taken.run, Run(taken.run))
                run.service = taken.service
                run.put(steps_of(taken.steps))
        except (ValueError, KeyError, TypeError) as error:
            raise RecordingError(f"{where}: its steps cannot be read: {error!r}") from None
    return [runs[name] for name in sorted(runs)]
