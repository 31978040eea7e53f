"""Records `moorage demo` as docs/demo.svg, a picture that plays: run it after what the demo writes has changed.

    make pictures

The picture is made by rich from the coloured output. It shows a window of so many rows, through which the output moves
at the pace of the run; long waits are cut short. Where nothing can move, the first rows are shown. A test compares the
text of the picture with what the demo writes (tests/e2e/test_demo.py).
"""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from moorage.cli.demo.lines import WIDTH

PICTURE: Final = Path(__file__).with_name("demo.svg")

ROWS: Final = 32

_LONGEST_WAIT: Final = 1.2
_AT_END: Final = 6.0
"""Seconds for which the last rows stay before the picture begins again."""

_TOGETHER: Final = 0.05
"""Seconds within which lines count as written at once."""

_CHAR, _LINE = 12.2, 24.4  # rich's own sizes, in the units of the picture
_MARGIN: Final = 20.0

_DARK: Final = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    [
        (110, 118, 129),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (255, 255, 255),
    ],
)

_TEXT: Final = re.compile(
    r'<text class="demo-r\d+" x="(?P<x>[\d.]+)" y="[\d.]+" textLength="(?P<length>[\d.]+)"'
    r' clip-path="url\(#demo-line-(?P<line>\d+)\)">(?P<text>.*?)</text>'
)


def record() -> list[tuple[float, str]]:
    """Run the demo; its lines with their colours, each with the seconds since the start at which it came.

    Raises:
        CalledProcessError: the demo failed.
    """
    command = [sys.executable, "-m", "moorage.cli", "demo"]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "PYTHONUNBUFFERED": "1"}
    began = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        found = [(time.monotonic() - began, line.rstrip("\n")) for line in process.stdout or ()]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return found


def draw(lines: Sequence[tuple[float, str]]) -> str:
    """The picture of a recording."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for _, line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    width, height = WIDTH * _CHAR + 2 * _MARGIN, ROWS * _LINE + 2 * _MARGIN
    return console.export_svg(
        theme=_DARK,
        unique_id="demo",
        font_aspect_ratio=0.61,
        code_format=_frame(width, height, _moves([at for at, _ in lines])),
    )


def _frame(width: float, height: float, moves: str) -> str:
    """What is around the lines; rich fills in what stands between braces."""
    view = f'x="0" y="{_MARGIN:g}" width="{width:g}" height="{ROWS * _LINE:g}"'
    moves = moves.replace("{", "{{").replace("}", "}}")
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="make demo, recorded">
<style>
.demo-matrix {{{{
  font: 20px/{_LINE}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}}}}
{{styles}}
{moves}
</style>
<defs><clipPath id="demo-view"><rect {view}/></clipPath>
{{lines}}
</defs>
<rect width="{width:g}" height="{height:g}" rx="10" fill="#0d1117"/>
<g clip-path="url(#demo-view)"><g class="demo-moves">
<g class="demo-matrix" transform="translate({_MARGIN:g}, {_MARGIN:g})">
{{matrix}}
</g></g></g>
</svg>
"""


def _moves(times: Sequence[float]) -> str:
    """The animation: at the time of each line everything moves so that this line is the lowest."""
    stops: list[tuple[float, int]] = []
    now, before = 0.0, 0.0
    for count, at in enumerate(times, 1):
        now += min(at - before, _LONGEST_WAIT)
        before = at
        if stops and now - stops[-1][0] < _TOGETHER:
            stops[-1] = (stops[-1][0], count)
        else:
            stops.append((now, count))
    total = now + _AT_END
    offsets = [(f"{100 * at / total:.2f}%", round((ROWS - count) * _LINE, 1)) for at, count in stops]
    frames = "\n".join(
        f"{at} {{ transform: translateY({offset:g}px); }}" for at, offset in [("0%", ROWS * _LINE), *offsets]
    )
    return (
        f"@keyframes demo-moves {{\n{frames}\n}}\n"
        "@media (prefers-reduced-motion: no-preference) {\n"
        f".demo-moves {{ animation: demo-moves {total:.1f}s step-end infinite; }}\n}}"
    )


def text_of(picture: str) -> list[str]:
    """The lines that are written in a picture, without those that are empty."""
    lines: dict[int, str] = {}
    ends: dict[int, float] = {}
    for found in _TEXT.finditer(picture):
        number, begins = int(found["line"]), float(found["x"])
        gap = " " if begins > ends.get(number, 0.0) else ""
        lines[number] = lines.get(number, "") + gap + html.unescape(found["text"]).replace("\xa0", " ")
        ends[number] = begins + float(found["length"])
    return [lines[number] for number in sorted(lines)]


if __name__ == "__main__":
    PICTURE.write_text(draw(record()), "utf-8")
