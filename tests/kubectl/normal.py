"""What of an answer stays the same from run to run: the rest gets a name in its place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

_RANDOM: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of names that the API generates."""

_SAME: Final = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
    (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d ([+-]\d{4}|[A-Z]{3})", "TIME"),
    (r'(resourceVersion\\*"?: ?)(\\*")\d+\\*"', r"\1\2RV\2"),
    (r"(the ResourceVersion in record \()\d+", r"\1RV"),
    (r"(Too large resource version: \d+, current: )\d+", r"\1RV"),
    (r"(Expected resource version to be \d+, was )\d+", r"\1RV"),
    (r"(kubectl[\w.-]*-edit-)\w+|(kubectl_\w+_)\d+", r"\1\2RANDOM"),
    (r'(resourceVersion="?)\d+', r"\1RV"),
    (r'(continue"?: ?)"?[A-Za-z0-9_=-]{20,}"?', r"\1TOKEN"),
    (r"(?m)^([EWIF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\]", r"\1 LOG]"),
    (rf"-[{_RANDOM}]{{8,10}}-[{_RANDOM}]{{5}}\b", "-HASH-RANDOM"),
    (rf"-[{_RANDOM}]{{8,10}}\b", "-HASH"),
    (rf"(?<=[a-z0-9])-[{_RANDOM}]{{5}}\b", "-RANDOM"),
    (rf"(pod-template-hash\"?[:=] ?\"?)[{_RANDOM}]{{8,10}}\b", r"\1HASH"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "AGE"),
    (r"\b\d+y\d+d\b", "AGE"),  # of a fixed time, which grows from day to day
    (r"\b(10|172|192)\.\d+\.\d+\.\d+\b", "IP"),
    (r"(?m)^(\S+ +(Active|Terminating)) +\d\w*$", r"\1 AGE"),
    (r"https?://(127\.0\.0\.1|localhost):\d+", "SERVER"),
    (r"\b127\.0\.0\.1:\d+", "SERVER"),
    (r" kwok-[\d.]+", ""),
    # Where a kube-apiserver has its table of types, with the line of its code.
    (r' in scheme \\*"pkg/runtime/scheme\.go:\d+\\*"', ""),
    (r"(?s)Please review the fields above.*", "\u2026\n"),
    (r"[ \t]+", " "),
    (r" +$", ""),
    (r"(Successfully assigned \S+ to )[\w.-]+", r"\1NODE"),
    # In which order a diff shows the field managers, and so what moves, depends on the seconds in which they wrote.
    (r'^[-+] time: "TIME"\n', ""),
    (r"^[-+] (- apiVersion|fieldsType|fieldsV1|manager|operation|f:|k:\{|v:|\.:).*\n", ""),
    # kubectl's own race at the end of its patience: it is cancelled, or sees that its watch was.
    (r"^[EWIF] LOG\] .*(very short watch|context deadline exceeded).*\n", ""),
)
_PATTERNS: Final = tuple((re.compile(pattern, re.MULTILINE), name) for pattern, name in _SAME)


def text(found: str, own: Mapping[str, str]) -> str:
    """A text without what changes from run to run.

    Args:
        found: the text.
        own: names of the run by what they are replaced with, such as its folder.
    """
    for name, value in own.items():
        found = found.replace(value, name)
    for pattern, name in _PATTERNS:
        found = pattern.sub(name, found)
    return found


def kept(found: str, paths: Sequence[str]) -> str:
    """Of JSON or YAML, what is at these paths, one a line. The text itself if it is neither."""
    try:
        value = yaml.load(found, yaml.CSafeLoader)
    except yaml.YAMLError:
        return found
    return "".join(f"{path}: {json.dumps(_at(value, path.split('.')), sort_keys=True)}\n" for path in paths)


def lines(found: str, pattern: str, *, ordered: bool) -> str:
    """The lines of a text that a pattern finds something in; all of them if it is empty.

    If their order does not count, that of the field managers in a line does not either.
    """
    chosen = [line for line in found.splitlines() if not pattern or re.search(pattern, line)]
    if not ordered:
        chosen = sorted(_MANAGERS.sub(_sorted_managers, line) for line in chosen)
    return "".join(f"{line}\n" for line in chosen)


_MANAGERS: Final = re.compile(r'(?<="managedFields":\[\{).*?(?=\}\])')


def _sorted_managers(found: re.Match[str]) -> str:
    return "},{".join(sorted(re.split(r'\},\{(?="apiVersion")', found[0])))


def _at(value: Any, path: Sequence[str]) -> Any:
    if not path:
        return value
    if path[0] == "*":
        return [_at(one, path[1:]) for one in value] if isinstance(value, list) else None
    if isinstance(value, list):
        return _at(value[int(path[0])], path[1:]) if path[0].isdigit() and int(path[0]) < len(value) else None
    name = path[0].replace("~", ".")  # a dot in a name
    return _at(value[name], path[1:]) if isinstance(value, dict) and name in value else None
