"""A real control plane of Kubernetes, Karmada or OCM as a process tree of a test."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "MOORAGE_PLANES"
"""The folder of `up.sh` and `down.sh`, which start and end control planes."""

CACHE: Final = "PLANES_CACHE"
"""The folder with the programs that `up.sh` starts."""

PROGRAMS: Final = {
    "test_kubernetes.py": "kubeplane",
    "test_ocm.py": "ocmhub",
    "test_ocm_handover.py": "ocmhub",
    "test_karmada.py": "karmadaplane",
    "test_karmada_handover.py": "karmadaplane",
    "test_hub_roles.py": "karmadaplane",
}
"""The program that the scenarios of a module need. Other modules need an API server alone."""

_SECONDS: Final = 180.0  # for a script that starts or ends processes


def scripts() -> Path | None:
    """The folder of the scripts, if this machine has them and what they start."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else None
    if folder is None or not all((folder / name).is_file() for name in ("up.sh", "down.sh")):
        return None
    return folder if (_cache() / "bin" / "kubeplane").is_file() else None


def told() -> str:
    """Whether the scenarios run, in words for the header and the end of a run."""
    if found := scripts():
        lacking = [
            f"{program} MISSING, SO {file} DID NOT RUN" for file, program in PROGRAMS.items() if not has(program)
        ]
        return "; ".join([f"{found}, programs in {_cache()}", *lacking])
    return (
        f"NO CONTROL PLANE, SO UPSTREAM'S SCENARIOS DID NOT RUN: set {VARIABLE} to the folder of up.sh and down.sh, "
        f"and {CACHE} to the folder of what they start"
    )


def is_complete() -> bool:
    """Whether all scenarios can run."""
    return scripts() is not None and all(has(program) for program in PROGRAMS.values())


def has(program: str) -> bool:
    """Whether a program was built, such as `ocmhub`."""
    return path_of(program).is_file()


def path_of(program: str) -> Path:
    """The file of a program, such as `ocmhub`."""
    return _cache() / "bin" / program


def _cache() -> Path:
    named = os.environ.get(CACHE)
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage-planes"


class Plane:
    """A control plane that runs in a folder."""

    def __init__(self, scripts: Path, folder: Path) -> None:
        self._scripts, self.folder = scripts, folder

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator."""
        return self.folder / "kubeconfig"

    async def up(self, *parts: str, flags: Mapping[str, str] | None = None) -> None:
        """Start what does not run.

        Args:
            parts: besides Kubernetes, such as `ocm`.
            flags: of the processes that are started, by variables such as `KCM_FLAGS`.
        """
        await self._run("up.sh", *parts, env=flags or {})

    async def down(self, *processes: str) -> None:
        """End some processes, or all."""
        await self._run("down.sh", *processes, env={})

    def pid(self, process: str) -> int:
        """The process id of one of its processes, such as `kwok-b`."""
        return int((self.folder / "pid" / process).read_text("utf-8"))

    def pause(self, process: str) -> None:
        """Stop a process without ending it."""
        os.kill(self.pid(process), signal.SIGSTOP)

    def resume(self, process: str) -> None:
        """Let a process go on that was paused."""
        os.kill(self.pid(process), signal.SIGCONT)

    async def _run(self, script: str, *words: str, env: Mapping[str, str]) -> None:
        # No pipe: what the script starts and leaves running may hold the other end.
        said = self.folder / f"{script}.log"
        with said.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(str(self._scripts / script), str(self.folder), *words),
                env={**os.environ, **env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
            )
        try:
            async with asyncio.timeout(_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        code = process.returncode
        assert code == 0, f"{script} {' '.join(words)} ended with {code}: {said.read_text('utf-8')}"


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Plane]:
    """A plane of which nothing runs yet. Everything that was started has ended afterwards."""
    found = scripts()
    assert found is not None, told()
    (folder / "pid").mkdir(parents=True, exist_ok=True)
    plane = Plane(found, folder)
    try:
        yield plane
    finally:
        await plane.down()
