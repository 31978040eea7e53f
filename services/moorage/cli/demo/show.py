"""The output of the demo."""

from __future__ import annotations

import time
from datetime import datetime

from rich.text import Text

from moorage.cli.api.topics import Seen
from moorage.cli.demo.claims import Claim
from moorage.cli.render import colors
from moorage.cli.render.events import STYLES
from moorage.insight.explain.wording import local_clock, words


class Show:
    """Writes lines as things happen, in colour on a terminal."""

    def __init__(self) -> None:
        self._console = colors.console()
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """Write the title of a step."""
        self._console.print()
        self._console.print(Text(text, "bold"))

    def note(self, text: str) -> None:
        """Write a note."""
        self._console.print(Text(f"   {text}", "dim"))

    def command(self, text: str) -> None:
        """Write the command of a person or a program."""
        self._console.print(Text(f"   $ {text}", "bold cyan"))

    def event(self, seen: Seen, cause: datetime, about: str) -> None:
        """Write an event: its time, the time since its cause, what it is about, and what happened."""
        when = seen.meta.time if seen.meta is not None and seen.meta.time is not None else seen.timestamp
        line = Text(f"   {local_clock(when)} ", "dim")
        line.append(f"{(when - cause).total_seconds():+8.3f} s  ", "bold")
        line.append(f"{about}  ", "dim")
        line.append(f"{seen.topic.short:<11} ", STYLES.get(seen.topic.short, "white"))
        line.append(words(seen.key, seen.event))
        self._console.print(line)

    def claim(self, claim: Claim) -> None:
        """Write a claim, and whether it holds."""
        line = Text("   ok    " if claim.holds else "   WRONG ", "green" if claim.holds else "bold red")
        line.append(claim.text if claim.holds else f"{claim.text}: {claim.problem}")
        self._console.print(line)

    @property
    def seconds(self) -> float:
        """The time since the start of the demo."""
        return time.monotonic() - self._began
