"""Reads manifests from files, folders and standard input. A file may have several documents, and `List` objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.yaml_events import TooLargeYamlError, check_events
from moorage.cli.api import kinds
from moorage.cli.errors import CliError

_SUFFIXES = (".yaml", ".yml", ".json")


class Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]  # chosen once
    """YAML as Kubernetes reads it: a time stays text."""


def load_all(text: str) -> Iterator[Any]:
    """Yield the documents of a text.

    Raises:
        YAMLError: it is not YAML, is nested too deeply, or grows too much by its aliases.
    """
    try:
        check_events(yaml.parse(text, Loader))
    except TooLargeYamlError:
        raise
    except yaml.YAMLError:
        pass  # the documents before the one that is wrong are read
    yield from yaml.load_all(text, Loader)


def load(text: str) -> Any:
    """Return the one document of a text. None if it has none.

    Raises:
        YAMLError: as `load_all`; or there is more than one document.
    """
    check_events(yaml.parse(text, Loader))
    return yaml.load(text, Loader)  # noqa: S506 - a safe loader that leaves times as they are


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in Loader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file, and its place in the file."""

    source: str
    """The file's path, or `standard input`."""

    index: int
    """The number of the document in the file, from 1."""

    document: dict[str, Any]
    kind: ServedKind | None
    """None if Moorage does not support it."""

    @property
    def place(self) -> str:
        """The file and the number of the document, for messages."""
        return f"{self.source}, document {self.index}"

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(_metadata(self.document).get("name") or "")

    def namespace(self, default: str) -> str:
        """Return `metadata.namespace`, or else the default. Empty if the kind is cluster-scoped."""
        if self.kind is not None and not self.kind.namespaced:
            return ""
        return str(_metadata(self.document).get("namespace") or default)


@dataclass(frozen=True, slots=True)
class Refused:
    """A document that cannot be used, with the reason."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"error: {self.place}: {self.message}"


def read(sources: Sequence[str], *, recursive: bool = False) -> tuple[list[Manifest], list[Refused]]:
    """Return the objects of the files, folders and `-` in their order, and the documents that cannot be used.

    Raises:
        CliError: a file cannot be read, or a folder has no manifest.
    """
    good: list[Manifest] = []
    bad: list[Refused] = []
    for name, text in _texts(sources, recursive=recursive):
        more, refused = read_text(name, text)
        good += more
        bad += refused
    if not good and not bad:
        raise CliError("no objects passed to apply" if sources else "must specify -f")
    return good, bad


def read_text(source: str, text: str) -> tuple[list[Manifest], list[Refused]]:
    """Return the objects of a text, and the documents in it that cannot be used.

    `source` is what the text is from, for messages.
    """
    good: list[Manifest] = []
    bad: list[Refused] = []
    for index, found in _documents(source, text, bad):
        checked = _check(source, index, found)
        if isinstance(checked, Manifest):
            good.append(checked)
        else:
            bad.append(checked)
    return good, bad


def _texts(sources: Iterable[str], *, recursive: bool) -> Iterator[tuple[str, str]]:
    for source in sources:
        if source == "-":
            yield "standard input", sys.stdin.read()
            continue
        if "://" in source:
            raise CliError(f"{source}: URLs are not supported; give a file, a folder, or - for standard input")
        path = Path(source)
        if path.is_dir():
            found = sorted(file for file in path.glob("**/*" if recursive else "*") if file.suffix in _SUFFIXES)
            if not found:
                raise CliError(f"error reading [{source}]: recognized file extensions are [.json .yaml .yml]")
        else:
            found = [path]
        for file in found:
            yield str(file), read_file(file)


def read_file(file: Path) -> str:
    """Return the text of a file. Raises CliError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CliError(f'the path "{file}" does not exist') from None
    except UnicodeDecodeError as error:
        raise CliError(f"{file}: is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise CliError(f"{file}: cannot be read: {error.strerror}") from None


def _documents(name: str, text: str, bad: list[Refused]) -> Iterator[tuple[int, Any]]:
    """Yield the documents of a text that are not empty. One that is not YAML ends the file."""
    index = 0
    documents = load_all(text)
    while True:
        index += 1
        try:
            found = next(documents)
        except StopIteration:
            return
        except (yaml.YAMLError, ValueError) as error:
            bad.append(Refused(f"{name}, document {index}", f"error parsing YAML: {problem(error)}"))
            return
        if found is None:
            continue
        if isinstance(found, dict) and str(found.get("kind", "")).endswith("List") and _is_list(found.get("items")):
            yield from ((index, item) for item in found["items"])
        else:
            yield index, found


def _is_list(items: Any) -> bool:
    return isinstance(items, list)


def _check(source: str, index: int, found: Any) -> Manifest | Refused:
    place = f"{source}, document {index}"
    if not isinstance(found, dict):
        return Refused(place, f"invalid value {str(found)[:80]!r}: must be an object with apiVersion and kind")
    for field in ("apiVersion", "kind"):
        if not isinstance(found.get(field), str) or not found[field]:
            value = found.get(field)
            return Refused(place, f"{field}: invalid value {value!r}: must be text" if value else f"{field} not set")
    api_version, kind_name = found["apiVersion"], found["kind"]
    kind = kinds.of_object(api_version, kind_name)
    if kind is None:
        name = f' (object "{_metadata(found)["name"]}")' if _metadata(found).get("name") else ""
        return Refused(place, f'no matches for kind "{kind_name}" in version "{api_version}"{name}')
    metadata = _metadata(found)
    if not isinstance(found.get("metadata", {}), dict) or not isinstance(metadata.get("name", ""), str):
        return Refused(place, "metadata.name: invalid value: must be text")
    if not metadata.get("name") and not metadata.get("generateName"):
        return Refused(place, "metadata.name: Required value: name or generateName is required")
    return Manifest(source, index, found, kind)


def _metadata(found: dict[str, Any]) -> dict[str, Any]:
    metadata = found.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def problem(error: Exception) -> str:
    """Return the line and the column of an error in a YAML text, both from 1, and what is wrong."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "context", None)
    if mark is not None and said:
        return f"line {mark.line + 1}, column {mark.column + 1}: {_one_line(said)}"
    return _one_line(error)


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
