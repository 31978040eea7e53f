"""Reads YAML and commands from pages: our own in tests/support/pages, and documents of others, if there are any.

`MOORAGE_DOCUMENTS` names the folder of such documents. They are web pages saved as text, so some of the YAML is
damaged: it has footnote numbers after values, lines of dots for omitted parts, and list items whose fields lost their
indentation. Our own pages have the same damage. `examples` repairs it by the rules in `_heal`. If an object omits parts
with a comment of dots, those parts are taken from the page's earlier object of that kind and name. Nothing else is
changed. The documents are Chinese: U+FF08 and U+FF09 are their parentheses, U+3002 their full stop, U+FF1A their colon.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

OWN = Path(__file__).parent / "pages"
VARIABLE = "MOORAGE_DOCUMENTS"

_FIELD = re.compile(r"^\s*(- )?\"?[A-Za-z][\w./-]*\"?:(\s.*)?$")
_ITEM = re.compile(r"^\s*- ")
_FOOTNOTE = re.compile(r"^(\s*(?:- )?[\w-]+: (?:\"[^\"]*\"|[\w./-]+)) \d$")
_COMMENT = re.compile(r"\s+# .*$")
_COMMAND = re.compile(
    r"(?:kubectl|oc adm) taint (?:nodes?|ManagedCluster) [^`\uff08\uff09\s]+(?: [^\s`\uff08\uff09,\u3002]+)+"
    r"|\boc (?:scale|edit|get) [^`\uff08\uff09\n]*[\w>]"
)
_OUTPUT = re.compile(r"^\s*((?:node|machineset)\S*/\S+ [a-z]+)\s*$")
_FLAG = re.compile(r"--[a-z][a-z-]+[a-z](?:=[\w=]+)?")
_LEFT_OUT = re.compile(r"^\s*#\s*\.{3,}\s*$")
_ROW = re.compile(r"^\|\s*([\w.-]+/[\w.-]+)\s*\|([^|]*)\|([^|]*)\|\s*$")
_STATUS = re.compile(r"\b(True|False|Unknown)\b")
_ITEM_FIELDS = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})
_BEGINS = re.compile(r"^\s*(apiVersion|kind|metadata|spec|tolerations|taints|labels):")
_STATE = re.compile(r"^(feature\.[\w.-]+/[\w.-]+): (\w+)$")


@dataclass(frozen=True)
class Example:
    """A YAML snippet of a page, repaired and parsed."""

    document: str
    line: int
    """Its first line, from 1."""
    text: str
    value: dict[str, Any]


def examples(path: Path) -> list[Example]:
    """Every YAML snippet of a page that is about taints, tolerations or an object."""
    return list(_examples(path))


@dataclass(frozen=True)
class Command:
    """A command on a page."""

    document: str
    text: str
    output: str
    """The output that the page shows. Empty if it shows none."""


@dataclass(frozen=True)
class SystemTaint:
    """A row of the table of taints that the system maintains on clusters by their condition `Ready`."""

    key: str
    added: tuple[str, ...]
    """The statuses with which it is added."""
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Pages:
    """Pages that are tested together."""

    paths: tuple[Path, ...]

    @cached_property
    def examples(self) -> list[Example]:
        """Every snippet, in the order of the pages."""
        return [one for path in self.paths for one in examples(path)]

    @cached_property
    def commands(self) -> list[Command]:
        """Every command, in the order of the pages."""
        return [one for path in self.paths for one in commands(path)]


def own(*names: str) -> Pages:
    """Our own pages with these names."""
    return Pages(tuple(OWN / f"{name}.md" for name in names))


def given(*numbers: str) -> Pages | None:
    """The documents whose names begin with these numbers. None if `MOORAGE_DOCUMENTS` is not set.

    Raises:
        pytest.UsageError: the variable is set, but a document is missing.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    found = []
    for number in numbers:
        paths = sorted(Path(named).glob(f"{number}_*.txt"))
        if len(paths) != 1:
            raise pytest.UsageError(
                f"{VARIABLE}: Invalid value: {named!r}: must be a folder with one document {number}_*.txt"
                f" (it has {len(paths)}), or unset to test without documents"
            )
        found += paths
    return Pages(tuple(found))


def commands(path: Path) -> list[Command]:
    """Every command of a page: taint, scale, edit and get."""
    found: list[Command] = []
    for line in path.read_text().splitlines():
        found += [Command(_short(path), match.group(0).strip(), "") for match in _COMMAND.finditer(line)]
        if (shown := _OUTPUT.match(line)) and found:
            found[-1] = replace(found[-1], output=shown[1])
    return found


def flags(path: Path) -> list[str]:
    """Every flag on a page, as written there, each once."""
    return list(dict.fromkeys(_FLAG.findall(path.read_text())))


def system_labels(path: Path) -> dict[str, str]:
    """The labels for the states of add-ons that a page shows as maintained by the system."""
    rows = (_STATE.match(line) for line in path.read_text().splitlines())
    return {row[1]: row[2] for row in rows if row}


def system_taints(path: Path) -> list[SystemTaint]:
    """The rows of the table of taints that the system maintains on clusters."""
    rows = (_ROW.match(line) for line in path.read_text().splitlines())
    return [SystemTaint(row[1], tuple(_STATUS.findall(row[2])), tuple(_STATUS.findall(row[3]))) for row in rows if row]


def _examples(path: Path) -> Iterator[Example]:
    block: list[str] = []
    start = 0
    whole: dict[tuple[str, str], dict[str, Any]] = {}
    for number, line in enumerate([*path.read_text().splitlines(), ""], start=1):
        dots = re.fullmatch(r"\s*\.{3,}\s*(?:\d\s*)?", line) is not None or _LEFT_OUT.match(line) is not None
        opening = _BEGINS.match(line) is not None
        if block and (dots or _FIELD.match(line) or _ITEM.match(line)):
            block.append("#..." if _LEFT_OUT.match(line) else "" if dots else line)
        elif not block and opening and not line.rstrip().endswith("\uff1a") and "," not in line:
            block, start = [line], number
        elif block:
            text = _heal(block)
            value = yaml.safe_load(text)
            if isinstance(value, dict) and any(item is not None for item in value.values()):
                if "#..." in text.replace(" ", ""):
                    value = _filled(value, whole)
                    text = yaml.safe_dump(value)
                elif "kind" in value:
                    whole.setdefault(_called(value), value)
                yield Example(_short(path), start, text, value)
            block = []


def _short(path: Path) -> str:
    """The name of a page in the names of tests: its number, or its name if it is our own."""
    return path.stem.partition("_")[0]


def _called(value: dict[str, Any]) -> tuple[str, str]:
    return str(value["kind"]), str((value.get("metadata") or {}).get("name"))


def _filled(value: dict[str, Any], whole: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """An object with the parts that `#...` omits, taken from the complete object of its kind and name."""
    before = whole[_called(value)]
    return {**value, "spec": {**before["spec"], **value["spec"]}}


def _heal(block: list[str]) -> str:
    """Remove footnotes and dots, and restore the indentation under list items and keys."""
    lines = [_FOOTNOTE.sub(r"\1", _COMMENT.sub("", line).rstrip()) for line in block if line.strip()]
    healed: list[str] = []
    key_indent = item_indent = -1
    shift = 0
    in_place: set[int] = set()  # the indentation of lists that is correct
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if _ITEM.match(line):
            shift, item_indent = 0 if indent in in_place else max(0, key_indent - indent), indent
            if not shift:
                in_place.add(indent)
        elif item_indent >= 0 and line.split(":")[0].strip() in _ITEM_FIELDS:
            healed.append(" " * (item_indent + shift + 2) + line.lstrip())
            continue
        else:
            shift, item_indent, key_indent = 0, -1, indent
        healed.append(" " * shift + line)
    return "\n".join(healed) + "\n"
