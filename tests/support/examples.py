"""The example probes and deployers of each language for which there are tools here."""

from __future__ import annotations

import sys
from typing import Final

from tests.architecture.files import ROOT

LANGUAGES: Final = ("python",)
"""The languages that can be run."""


def command(language: str, program: str) -> tuple[str, ...]:
    """The command that runs the example `probe` or `deployer`."""
    assert language in LANGUAGES
    return (sys.executable, "-u", str(ROOT / "examples" / f"{program}.py"))
