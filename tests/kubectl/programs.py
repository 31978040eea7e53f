"""The kubectl of this machine whose answers are recorded, and the programs that are built beside it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

VARIABLE: Final = "MOORAGE_KUBECTL"
"""Names a kubectl instead of the one in the cache or on `PATH`."""

RECORDED: Final = "1.37"
"""The version for which answers are recorded in `answers/`."""

KARMADACTL: Final = Path(__file__).parent / "karmadactl"
"""The module of karmadactl 1.16."""

CLIENT: Final = Path(__file__).parent / "clientgo"
"""The module of the informer and the typed writers of client-go."""

HELM: Final = Path(__file__).parents[2] / "ops" / "helm"
"""The module that pins helm, which renders the chart in `ops/kubernetes`."""


@dataclass(frozen=True)
class Kubectl:
    """A kubectl."""

    version: str
    """Major and minor, such as `1.37`."""

    command: tuple[str, ...]

    program: str = "kubectl"
    """Which cases it runs. The commands of `karmadactl` are given as they are, without a namespace."""


def cache_folder() -> Path:
    """Where `ops/kubectl-get` puts programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage" / "kubectl"


@cache
def found() -> tuple[Kubectl, ...]:
    """The kubectl of the recorded version, if there is one."""
    named = os.environ.get(VARIABLE) or str(kubectl_place())
    there = next((one for one in (named, shutil.which("kubectl") or "") if version_of(one) == RECORDED), "")
    return (Kubectl(RECORDED, (there,)),) if there else ()


def kubectl_place() -> Path:
    """Where kubectl is when it is built."""
    return cache_folder() / f"kubectl-{RECORDED}"


def clientgo() -> Path:
    """Where the program of `CLIENT` is when it is built."""
    return _built(CLIENT)


def karmadactl() -> tuple[Kubectl, ...]:
    """The karmadactl that was built here, if there is one."""
    program = karmadactl_place()
    return (Kubectl("karmadactl-1.16", (str(program),), "karmadactl"),) if program.exists() else ()


def karmadactl_place() -> Path:
    """Where the program of `KARMADACTL` is when it is built."""
    return _built(KARMADACTL)


def helm() -> Path:
    """Where helm is when it is built."""
    return _built(HELM)


def _built(module: Path) -> Path:
    """The name of what a module is built to says from which sources."""
    digest = hashlib.blake2b(digest_size=8)
    for name in ("main.go", "go.mod", "go.sum"):
        if (module / name).exists():  # one that only pins a program has no source of its own
            digest.update((module / name).read_bytes())
    return cache_folder() / f"{module.name}-{digest.hexdigest()}"


def told() -> str:
    """What a run of tests says of them."""
    there = RECORDED if found() else "none"
    lost = [f"kubectl {RECORDED}"] * (not found()) + ["client-go"] * (not clientgo().exists())
    how = ["`make tools`"] * bool(lost)
    how += ["`ops/kubectl-get --karmadactl`"] * (not karmadactl()) + ["`make tools`"] * (not helm().exists())
    lost += ["karmadactl"] * (not karmadactl()) + ["helm"] * (not helm().exists())
    if not lost:
        return f"{there}, client-go, karmadactl and helm"
    names, ways = " AND ".join(lost).upper(), " and ".join(how)
    return f"{there}; {names} MISSING, SO THEIR TESTS DID NOT RUN (to get them: {ways})"


def is_complete() -> bool:
    """Whether nothing is missing."""
    return bool(found()) and clientgo().exists() and bool(karmadactl()) and helm().exists()


def version_of(program: str) -> str:
    """Major and minor of a kubectl. Empty if it does not say."""
    try:
        done = subprocess.run(
            [program, "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=20, check=True
        )
        told = json.loads(done.stdout)["clientVersion"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return ""
    return ".".join(str(told["gitVersion"]).removeprefix("v").split(".")[:2])
