"""The files of data, with what Moorage says in addition to them. Each is read when it is first asked for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from moorage.apiserver.machinery.openapi import additions

Data = dict[str, Any]


@cache
def native() -> Data:
    """The kinds that are built into an API server, by group, version and kind, and the definitions that they use."""
    found = _read("native")
    definitions = found["definitions"]
    for name, more in additions.DEFINITIONS.items():
        definitions[name]["fields"].update(more(definitions))
    for name, texts in _read("descriptions").items():
        for field, text in texts.items() if name in definitions else ():
            (definitions[name]["fields"][field] if field else definitions[name])["description"] = text
    for definition in definitions.values():
        for said in definition.get("fields", {}).values():
            if values := said.get("enum"):
                said["description"] = _with_values(said.get("description", ""), values)
    return found


def _with_values(text: str, values: list[str]) -> str:
    """A description that names the values that a field may have, as upstream's does."""
    listed = "".join(f'\n - `"{one}"`' for one in values)
    return f"{text}\n\nPossible enum values:{listed}".strip()


@cache
def custom() -> Data:
    """The custom resources, by group, version and kind."""
    found = _read("custom")
    kinds = found["kinds"]
    for kind, paths in additions.KINDS.items():
        for path, more in paths.items():
            _fields(kinds[kind], path).update(more)
    for kind, (newer, taken) in additions.AS_IN_NEWER.items():
        for path in taken:
            around, _, field = path.rpartition(".")
            _fields(kinds[kind], around)[field] = _part(kinds[newer], path)
    described = _read("descriptions")
    for kind, said in kinds.items():
        group, _, name = kind.split("/")
        for path, text in described.get(f"{group}/{name}", {}).items():
            if (part := _part(said, path)) is not None:
                part["description"] = text
    return found


def _read(name: str) -> Data:
    found: Data = json.loads(Path(__file__).with_name(f"{name}.json").read_bytes())
    return found


def _part(said: Any, path: str) -> Any:
    """What the data says of a field of a kind. Elements of lists need no word. None if there is no such field."""
    for name in filter(None, path.split(".")):
        said = said.get("items", said).get("fields", {}).get(name)
        if said is None:
            return None
    return said


def _fields(said: Data, path: str) -> Data:
    """The fields of a struct in a kind, or of the elements of a list."""
    part = _part(said, path)
    found: Data = part.get("items", part)["fields"]
    return found
