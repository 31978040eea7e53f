"""Versions of Moorage that run beside each other: this checkout, and an earlier commit with its own environment."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import IO

from tests.support import forks
from tests.support.commands import Done, program

from moorage.cli.local.supervisor import Process

ROOT = Path(__file__).parents[3]
NAMED = ROOT / "tests" / "chaos" / "faults" / "upgraded-from"
"""The file that names the commit of the version before."""

_SYNC_WITHIN = 900.0


class VersionMissingError(Exception):
    """A version cannot be had: its commit or its packages are missing here."""


@dataclass(frozen=True)
class Version:
    """A version of Moorage: how its processes are started, and where its examples are."""

    name: str
    root: Path
    python: Path

    async def launch(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None
    ) -> Process:
        """Start `moorage` of this version. It ends with the test, whose end of its standard input is open till then."""
        if self.root == ROOT:
            return await forks.launch(arguments, environment, output)
        return await asyncio.create_subprocess_exec(
            *(str(self.python), "-m", "moorage.cli", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.root,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    async def moorage(self, *words: str, env: Mapping[str, str], text: str | None = None) -> Done:
        """Run the command line of this version."""
        return await program(str(self.python), "-m", "moorage.cli", *words, env=env, text=text)

    async def example(self, name: str, *words: str, env: Mapping[str, str]) -> Done:
        """Run an example, which uses the SDK of this version."""
        return await program(str(self.python), str(self.root / "examples" / name), *words, env=env)


def this() -> Version:
    """Return the version of this checkout."""
    return Version("new", ROOT, Path(sys.executable))


def before() -> str:
    """Return the commit of the version before."""
    return NAMED.read_text().split()[0]


@cache
def missing() -> str:
    """Return why the version before cannot be had here; empty if nothing is known against it."""
    if shutil.which("git") is None or _uv() is None:
        return "GIT OR UV MISSING, SO NO UPGRADE WAS TRIED"
    words = ["git", "cat-file", "-e", f"{before()}^{{commit}}"]
    if subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode:
        return f"COMMIT {before()} MISSING, SO NO UPGRADE WAS TRIED (to get it: git fetch --unshallow)"
    return ""


def _uv() -> str | None:
    return shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


def earlier(revision: str, folder: Path) -> Version:
    """Write the files of a commit into a folder, and make an environment there from its own uv.lock.

    Args:
        revision: what git takes as a commit.
        folder: does not exist yet.

    Raises:
        VersionMissingError: git has no such commit, as in a shallow clone, or its packages cannot be had.
    """
    uv = _uv()
    if shutil.which("git") is None or uv is None:
        raise VersionMissingError("git and uv must be installed: run make setup")
    found = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        raise VersionMissingError(f"git archive {revision}: {found.stderr.decode().strip()[:200]}")
    with tarfile.open(fileobj=BytesIO(found.stdout)) as files:
        files.extractall(folder, filter="data")
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder / ".venv")}
    environment.pop("VIRTUAL_ENV", None)
    words = [uv, "sync", "--locked", "--quiet", "--no-default-groups", "--python", sys.executable]
    try:
        made = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, check=False, timeout=_SYNC_WITHIN
        )
    except subprocess.TimeoutExpired as error:
        raise VersionMissingError(f"uv sync of {revision} took longer than {_SYNC_WITHIN:.0f} s") from error
    if made.returncode:
        raise VersionMissingError(f"uv sync of {revision}: {made.stderr.decode().strip()[-400:]}")
    return Version(f"old ({revision[:8]})", folder, folder / ".venv" / "bin" / "python")
