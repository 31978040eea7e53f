"""The example probes and deployers of each language for which there are tools here."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.architecture.files import ROOT

EXAMPLES: Final = ROOT / "examples"
GO: Final = ROOT / "sdk" / "go"
TYPESCRIPT: Final = ROOT / "sdk" / "typescript"


def compiler_folder() -> Path:
    """Where `make tools` puts the compiler of the locked version."""
    lock = hashlib.sha256((TYPESCRIPT / "package-lock.json").read_bytes()).hexdigest()[:12]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "moorage" / f"typescript-{lock}"


def missing() -> dict[str, str]:
    """The languages that cannot be run here, each with what it needs."""
    found = {}
    if shutil.which("go") is None:
        found["go"] = "Go"
    if shutil.which("node") is None:
        found["typescript"] = "Node"
    elif not _compiler().exists():
        found["typescript"] = "`make tools`"
    return found


def languages() -> list[str]:
    """The languages that can be run."""
    return [one for one in ("python", "go", "typescript") if one not in missing()]


def command(language: str, program: str) -> tuple[str, ...]:
    """The command that runs the example `probe` or `deployer`. It is built when it is first needed."""
    if language == "go":
        return (str(_go() / program),)
    if language == "typescript":
        return ("node", str(typescript() / "examples" / f"{program}.js"))
    return (sys.executable, "-u", str(EXAMPLES / f"{program}.py"))


def _compiler() -> Path:
    return compiler_folder() / "node_modules" / ".bin" / "tsc"


@cache
def _go() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="moorage-go-"))
    words = ["go", "build", "-o", f"{folder}/", "./examples/deployer", "./examples/probe"]
    subprocess.run(words, cwd=GO, check=True)
    return folder


@cache
def typescript() -> Path:
    """The compiled programs. The types are checked, too."""
    folder = Path(tempfile.mkdtemp(prefix="moorage-typescript-"))
    (folder / "package.json").write_text('{"type": "module"}')
    types = compiler_folder() / "node_modules" / "@types"
    words = [str(_compiler()), "-p", str(TYPESCRIPT), "--outDir", str(folder), "--typeRoots", str(types)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
