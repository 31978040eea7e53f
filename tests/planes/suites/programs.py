"""Upstream's own suites as programs, which Go builds from its module proxy next to the programs of the planes."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.planes import plane
from tests.support.go_tools import ToolMissingError, find_go

MODULES: Final = Path(__file__).parents[3] / "ops" / "upstream-suites"
"""The Go modules. They name the versions, and no code of upstream is among them."""

_OCM: Final = "open-cluster-management.io/ocm"
_OCM_API: Final = "open-cluster-management.io/api"
_KARMADA: Final = "github.com/karmada-io/karmada"
_CONTROLLERS: Final = "pkg/placement/controllers"


def kubernetes() -> Path:
    """The end-to-end specs of nodes and of scheduling."""
    return _built("kubernetes", MODULES / "kubernetes", ".")


def karmada() -> Path:
    """All end-to-end specs of Karmada."""
    return _built("karmada", MODULES / "fleet", f"{_KARMADA}/test/e2e/suites/base")


def ocm() -> Path:
    """The integration specs of placements.

    Each of them starts OCM's controllers in its own process, and nobody else could decide. So they are built from a
    copy of OCM in which the package of the controllers is `nobody`, which starts nothing.
    """
    module = MODULES / "fleet"
    if (program := _program("ocm", module)).is_file():
        return program
    copy = program.with_suffix(".source")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(_source(module, _OCM), copy, copy_function=shutil.copyfile)
    for folder in (copy, *(one for one in copy.rglob("*") if one.is_dir())):
        folder.chmod(0o755)  # they are read-only where Go keeps them
    for file in (copy / _CONTROLLERS).glob("*.go"):
        file.unlink()
    shutil.copytree(module / "nobody", copy / _CONTROLLERS, dirs_exist_ok=True)
    changed = copy / "suites.mod"
    shutil.copyfile(module / "go.mod", changed)
    shutil.copyfile(module / "go.sum", changed.with_suffix(".sum"))
    _go(module, "mod", "edit", f"-replace={_OCM}={copy}", str(changed))
    return _built("ocm", module, f"{_OCM}/test/integration/placement", f"-modfile={changed}")


def ocm_definitions() -> Path:
    """The folder with the definitions of OCM's kinds, which its specs install."""
    return _source(MODULES / "fleet", _OCM_API)


def versions() -> dict[str, str]:
    """The version of each suite, by its name."""
    kubernetes, fleet = MODULES / "kubernetes", MODULES / "fleet"
    named = {"kubernetes": (kubernetes, "k8s.io/kubernetes"), "ocm": (fleet, _OCM), "karmada": (fleet, _KARMADA)}
    found = {}
    for name, (folder, module) in named.items():
        words = (folder / "go.mod").read_text("utf-8").split()
        found[name] = next(after for word, after in itertools.pairwise(words) if word == module)
    return found


def _program(name: str, module: Path) -> Path:
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(one for one in module.rglob("*") if one.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return plane.path_of("suites") / f"{name}-{digest.hexdigest()}.test"


def _built(name: str, module: Path, package: str, *options: str) -> Path:
    program = _program(name, module)
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"building {program} (takes minutes)\n")
        partial = program.with_suffix(".part")
        _go(module, "test", "-c", *options, "-o", str(partial), package)
        partial.replace(program)
    return program


def _source(module: Path, dependency: str) -> Path:
    _go(module, "mod", "download", dependency)
    return Path(_go(module, "list", "-m", "-f", "{{.Dir}}", dependency).strip())


def _go(folder: Path, *words: str) -> str:
    done = subprocess.run([find_go(), *words], cwd=folder, check=False, stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        raise ToolMissingError(f"`go {' '.join(words)}` in {folder} ended with {done.returncode}")
    return done.stdout
