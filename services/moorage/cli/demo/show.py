"""How the demo writes to the terminal."""

from __future__ import annotations

import time
from datetime import datetime

from rich.text import Text

from moorage.cli.api.topics import Seen
from moorage.cli.demo.claims import Claim
from moorage.cli.render import colors
from moorage.cli.render.events import STYLES, clock, words


class Show:
    """Writes lines that come as things happen, coloured when it is a terminal."""

    def __init__(self) -> None:
        self._console = colors.console()
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """A step."""
        self._console.print()
        self._console.print(Text(text, "bold"))

    def note(self, text: str) -> None:
        """What is being done."""
        self._console.print(Text(f"   {text}", "dim"))

    def command(self, text: str) -> None:
        """What a person or a program does."""
        self._console.print(Text(f"   $ {text}", "bold cyan"))

    def event(self, seen: Seen, cause: datetime, about: str) -> None:
        """An event: the time, how long after its cause, what it is about, what happened."""
        when = seen.meta.time if seen.meta is not None and seen.meta.time is not None else seen.timestamp
        line = Text(f"   {clock(when)} ", "dim")
        line.append(f"{(when - cause).total_seconds():+8.3f} s  ", "bold")
        line.append(f"{about}  ", "dim")
        line.append(f"{seen.topic.short:<11} ", STYLES.get(seen.topic.short, "white"))
        line.append(words(seen.key, seen.event))
        self._console.print(line)

    def claim(self, claim: Claim) -> None:
        """A claim, and whether it holds."""
        line = Text("   ok    " if claim.holds else "   WRONG ", "green" if claim.holds else "bold red")
        line.append(claim.text if claim.holds else f"{claim.text}: {claim.problem}")
        self._console.print(line)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began
