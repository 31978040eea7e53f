"""Reads the YAML and the commands out of the user's documents beside the project.

The documents are web pages saved as text, so some of the YAML has scars: footnote numbers behind values, lines
of dots for what was left out, list items whose fields lost their indentation. `examples` heals those scars by the
rules in `_heal` and changes nothing else. (The documents are Chinese: U+FF08 and U+FF09 are their parentheses, U+3002
their full stop, U+FF1A their colon.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "seeds"

_FIELD = re.compile(r"^\s*(- )?\"?[A-Za-z][\w./-]*\"?:(\s.*)?$")
_ITEM = re.compile(r"^\s*- ")
_FOOTNOTE = re.compile(r"^(\s*(?:- )?[\w-]+: (?:\"[^\"]*\"|[\w./-]+)) \d$")
_COMMENT = re.compile(r"\s+# .*$")
_COMMAND = re.compile(r"(?:kubectl|oc adm) taint nodes? [^`\uff08\uff09\s]+(?: [^\s`\uff08\uff09,\u3002]+)+")
_ITEM_FIELDS = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})
_BEGINS = re.compile(r"^\s*(apiVersion|kind|metadata|spec|tolerations|taints):")


@dataclass(frozen=True)
class Example:
    """One YAML snippet of a document, healed and read."""

    document: str
    line: int
    """Where it begins, from 1."""
    text: str
    value: dict[str, Any]


def documents(*numbers: str) -> list[Path]:
    """The documents whose names begin with these numbers."""
    return [path for path in sorted(FOLDER.glob("*.txt")) if path.name[:3] in numbers]


def examples(path: Path) -> list[Example]:
    """Every YAML snippet of a document that says something about taints, tolerations or an object."""
    return list(_examples(path))


def commands(path: Path) -> list[str]:
    """Every taint command of a document."""
    return [match.group(0).strip() for line in path.read_text().splitlines() for match in _COMMAND.finditer(line)]


def _examples(path: Path) -> Iterator[Example]:
    block: list[str] = []
    start = 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], start=1):
        dots = re.fullmatch(r"\s*\.{3,}\s*(?:\d\s*)?", line) is not None
        opening = _BEGINS.match(line) is not None
        if block and (dots or _FIELD.match(line) or _ITEM.match(line)):
            block.append("" if dots else line)
        elif not block and opening and not line.rstrip().endswith("\uff1a") and "," not in line:
            block, start = [line], number
        elif block:
            text = _heal(block)
            value = yaml.safe_load(text)
            if isinstance(value, dict) and any(item is not None for item in value.values()):
                yield Example(path.name[:3], start, text, value)
            block = []


def _heal(block: list[str]) -> str:
    """Remove footnotes and dots, and indent again what stands under a list item or a key."""
    lines = [_FOOTNOTE.sub(r"\1", _COMMENT.sub("", line).rstrip()) for line in block if line.strip()]
    healed: list[str] = []
    key_indent = item_indent = -1
    shift = 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if _ITEM.match(line):
            shift, item_indent = max(0, key_indent - indent), indent
        elif item_indent >= 0 and line.split(":")[0].strip() in _ITEM_FIELDS:
            healed.append(" " * (item_indent + shift + 2) + line.lstrip())
            continue
        else:
            shift, item_indent, key_indent = 0, -1, indent
        healed.append(" " * shift + line)
    return "\n".join(healed) + "\n"
