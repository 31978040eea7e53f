"""Console sessions on Markdown pages: parses them and compares their output.

A fenced block of the language `console` is a session. A line that begins with `$ ` is a command, and `> ` continues the
line above. The lines after a command are its output. A line `…` stands for any lines, and `…` within a line for any
text. The title of a block names its terminal. A block without a command shows the next output of the command that runs
in its terminal, in any order.

Times, ages, ports, the user and the random parts of names differ between runs. So both sides are compared without them
(`normal`), and without the width of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]*)\")?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_ELLIPSIS: Final = "…"

_VARIES: Final = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "<clock>"),
        (r"\((\d+[a-z]+)+ ago\)", "(<age> ago)"),
        (r"\bin (\d+[smhd])+(?=[\s)]|$)", "in <age>"),
        (r"(?<=  )(\d+(ms|[smhd]))+(?=\s|$)", "<age>"),
        (r"\(\d+\.\d s\)", "(<age>)"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"\bcli/[\w.-]+", "cli/<user>"),
        (r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
        (r"(?<=Placed on )node/\w+", "node/<any>"),
        # The alphabet of such endings has no vowels, so that words do not match.
        (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<id>"),
        (r"  +", "  "),
    )
)


@dataclass(frozen=True)
class Step:
    """A command, and its output according to the page."""

    line: int
    """The line on the page, from 1."""

    terminal: str
    """The title of its block. Empty for the reader's own terminal."""

    command: str
    """The command. Empty if the step is the next output of the command that runs in this terminal."""

    output: tuple[str, ...]


def blocks(page: str, language: str) -> list[tuple[int, str, list[str]]]:
    """The fenced blocks of a language, as (first line, title, lines)."""
    return [
        (page.count("\n", 0, found.start("body")) + 1, found["title"] or "", found["body"].splitlines())
        for found in _FENCE.finditer(page)
        if found["language"] == language
    ]


def steps(page: str) -> list[Step]:
    """The steps of the console sessions on a page, in their order."""
    found: list[Step] = []
    for first, title, lines in blocks(page, "console"):
        at, command, output = first, "", list[str]()
        for number, line in enumerate([*lines, "$ "], first):
            if line.startswith("> ") and command and not output:
                command += f"\n{line[2:]}"
            elif line.startswith("$ "):
                if command or output:
                    found.append(Step(at, title, command, tuple(output)))
                at, command, output = number, line[2:], []
            else:
                output.append(line)
    return found


def normal(text: str) -> str:
    """A line without the parts that differ between runs."""
    for pattern, name in _VARIES:
        text = pattern.sub(name, text)
    return text.rstrip()


def holds(expected: Sequence[str], actual: Sequence[str]) -> bool:
    """Whether lines match those on a page."""
    parts = [rf"(?:{_pattern(line)}\n)" if line != _ELLIPSIS else r"(?:.*\n)*?" for line in expected]
    return re.fullmatch("".join(parts), "".join(f"{normal(line)}\n" for line in actual)) is not None


def missing(expected: Iterable[str], actual: Iterable[str]) -> list[str]:
    """The lines on a page without a counterpart in other lines, in any order. Each line is the counterpart of one."""
    return [line for line, place in _paired(expected, actual) if place is None]


def later(expected: Iterable[str], actual: Sequence[str]) -> list[str]:
    """The lines after the last one that is the counterpart of a line on a page."""
    places = [place for _, place in _paired(expected, actual) if place is not None]
    return list(actual[max(places, default=-1) + 1 :])


def _paired(expected: Iterable[str], actual: Iterable[str]) -> list[tuple[str, int | None]]:
    """The lines on a page, each with the place of its counterpart in other lines."""
    left = dict(enumerate(map(normal, actual)))
    pairs = list[tuple[str, int | None]]()
    for line in expected:
        if line == _ELLIPSIS:
            continue
        pattern = re.compile(_pattern(line))
        place = next((place for place, one in left.items() if pattern.fullmatch(one)), None)
        if place is not None:
            del left[place]
        pairs.append((line, place))
    return pairs


def _pattern(line: str) -> str:
    return ".*?".join(re.escape(part) for part in normal(line).split(_ELLIPSIS))
