"""Go programs that are built into the user's cache folder, for comparisons that are run by hand."""

from __future__ import annotations

import hashlib
import json
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

    A file `overlay.txt` names files of modules that are built as if they were in a folder of the program, so that they
    can be called from within their package: a module, a file of it, and the folder, one each line.

    Raises:
        ToolMissingError: it cannot be built.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".go", ".mod", ".sum", ".txt"})
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
    options = _overlay(go, folder, temporary.with_suffix(".json"))
    done = subprocess.run([go, "build", *options, "-o", str(temporary), "."], cwd=folder, check=False)
    if done.returncode:
        raise ToolMissingError(f"`go build` in {folder} ended with {done.returncode}")
    temporary.replace(program)
    return program


def _overlay(go: str, folder: Path, written: Path) -> list[str]:
    """The options of `go build` for the overlay of a program. Empty if it has none."""
    listed = folder / "overlay.txt"
    if not listed.is_file():
        return []
    replaced = {}
    for line in listed.read_text("utf-8").splitlines():
        module, name, into = line.split()
        subprocess.run([go, "mod", "download", module], cwd=folder, check=True)
        found = subprocess.run(
            [go, "list", "-m", "-f", "{{.Dir}}", module], cwd=folder, check=True, capture_output=True, text=True
        )
        path = Path(found.stdout.strip()) / name
        replaced[str(folder / into / path.name)] = str(path)
    written.write_text(json.dumps({"Replace": replaced}), "utf-8")
    return ["-overlay", str(written)]
