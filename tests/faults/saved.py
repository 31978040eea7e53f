"""A history as files, to be looked at and checked again later."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from tests.seeded.history import Acknowledged, Entry, History

_ENTRIES, _REST = "entries.jsonl", "history.json"


def save(history: History, folder: Path) -> None:
    """Write it into a folder: each record as a line of JSON, and the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _ENTRIES).open("w") as file:
        for entry in history.entries:
            value = None if entry.value is None else entry.value.decode("utf-8", "surrogateescape")
            line: dict[str, Any] = {**dataclasses.asdict(entry), "value": value}
            file.write(json.dumps(line) + "\n")
    rest = {one.name: getattr(history, one.name) for one in dataclasses.fields(history) if one.name != "entries"}
    rest["acknowledged"] = [dataclasses.asdict(one) for one in history.acknowledged]
    (folder / _REST).write_text(json.dumps(rest, indent=1))


def load(folder: Path) -> History:
    """Read what `save` has written."""
    lines = [json.loads(line) for line in (folder / _ENTRIES).read_text().splitlines()]
    rest: dict[str, Any] = json.loads((folder / _REST).read_text())
    rest["acknowledged"] = [Acknowledged(**one) for one in rest["acknowledged"]]
    return History(entries=[Entry(**{**line, "value": _bytes(line["value"])}) for line in lines], **rest)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
