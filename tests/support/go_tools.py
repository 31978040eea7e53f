"""Go programs that are built into the user's cache folder, for comparisons that are run by hand."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_GO_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")


class ToolMissingError(Exception):
    """Something that a comparison needs is missing."""


def find_go() -> str:
    """The executable of the Go tool chain.

    Raises:
        ToolMissingError: there is none.
    """
    found = shutil.which("go") or next((place for place in _GO_PLACES if Path(place).is_file()), None)
    if found is None:
        raise ToolMissingError("Go is missing: no program `go` on PATH (go.mod says which version is needed)")
    return found


def built(folder: Path) -> Path:
    """The executable of the Go program in a folder. It is built if its sources have changed.

    Raises:
        ToolMissingError: it cannot be built.
    """
    files = sorted(path for path in folder.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = hashlib.blake2b(digest_size=8)
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage"
    program = cache / f"{folder.name}-{digest.hexdigest()}"
    if program.is_file():
        return program
    go = find_go()
    cache.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"building {program} (takes some minutes)\n")
    temporary = program.with_name(f".{program.name}-{os.getpid()}")
    done = subprocess.run([go, "build", "-o", str(temporary), "."], cwd=folder, check=False)
    if done.returncode:
        raise ToolMissingError(f"`go build` in {folder} ended with {done.returncode}")
    temporary.replace(program)
    return program
