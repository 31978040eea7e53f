"""A bridge as a process of a test, which may be killed and started again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.planes.plane import Plane
from tests.support import forks
from tests.support.live import Live
from tests.support.waiting import until

from moorage.cli.local.supervisor import end

_START: Final = 60.0  # seconds until a bridge acts
_END: Final = 20.0  # seconds for a bridge to end in order


class Bridge:
    """A bridge from a plane to a Moorage.

    Args:
        plane: the control plane.
        live: a Moorage that runs.
        folder: for its logs.
        words: the kind of the control plane, such as `kubernetes`, and options of that kind.
        access: the options that say how it reaches the plane. By default it is an administrator there.
        acts: what it writes there. Empty for one that only reads.
    """

    def __init__(
        self,
        plane: Plane,
        live: Live,
        folder: Path,
        words: Sequence[str],
        access: Sequence[str] = (),
        *,
        acts: str = "all",
    ) -> None:
        self._live, self._folder, self._words = live, folder, words
        self._acting = ("--act", acts) if acts else ()
        self._access = access or ("--kubeconfig", str(plane.kubeconfig))
        self._process: forks.Forked | None = None
        self._starts = 0

    @property
    def live(self) -> Live:
        """The Moorage that it belongs to."""
        return self._live

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def _log(self) -> Path:
        return self._folder / f"bridge-{self._starts}.log"

    async def start(self) -> None:
        """Start it. Returns when it acts, or reads if it has no acts."""
        await self.launch()
        await until(self._begun, _START, "the bridge does not act")

    async def launch(self) -> None:
        """Start it, and do not wait for anything."""
        self._starts += 1
        words = ("bridge", *self._words, *self._access, *self._acting)
        with self._log.open("wb") as output:
            self._process = await forks.launch(words, self._live.env, output)

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What it has logged of an event since it was started last."""
        lines = (json.loads(line) for line in self._log.read_text("utf-8").splitlines() if line.startswith("{"))
        return [one for one in lines if one["event"] == event]

    async def said(self, event: str) -> None:
        """Return when its log has an event, such as `process.ready`."""

        def has() -> bool:
            self.must_run()
            return f'"{event}"' in self._log.read_text("utf-8")

        await until(has, _START, f"the bridge has not logged {event}")

    @property
    def leads(self) -> bool:
        """Whether it is the one that acts, as it says."""
        text = self._log.read_text("utf-8")
        return text.rfind('"election.leads"') > text.rfind('"election.follows"')

    def _begun(self) -> bool:
        """Whether it says that it knows the cluster, and is the one that acts there."""
        self.must_run()
        said = self._log.read_text("utf-8")
        return ('"election.leads"' in said or not self._acting) and '"process.ready"' in said

    def must_run(self) -> None:
        """Fail if it has ended by itself."""
        assert self._process is not None
        code = self._process.returncode
        assert code is None, f"the bridge ended with {code}: {self._log.read_text('utf-8')}"

    async def kill(self) -> None:
        """Kill it at once."""
        self.must_run()
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """End it in order, or kill it if it does not."""
        if self._process is not None:
            await end(self._process, _END)
