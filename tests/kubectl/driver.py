"""Runs cases of the table with one kubectl against one server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
from tests.kubectl import normal, objects
from tests.kubectl.cases import KUBECTL, Case, Step
from tests.kubectl.programs import Kubectl
from tests.kubectl.servers import Server
from tests.support.waiting import until

Answer = dict[str, Any]
"""The normal form of what a step returned: `code`, `out` and `err`."""

_LETTERS: Final = "bcdfghjkmnpqrtvwxz"  # no word contains seven of them in a row
_READY_SECONDS: Final = 120.0
_COMMAND_SECONDS: Final = 240.0
_UNTIL_SECONDS: Final = 120.0
_CONFLICT: Final = 409
_ERROR: Final = 400


@dataclass(frozen=True)
class Run:
    """One run of a case."""

    answers: tuple[Answer, ...]
    failure: str = ""
    """Why the case could not be run to its end. Empty if it was."""


@dataclass(frozen=True)
class Driver:
    """Runs cases with one kubectl against one server."""

    server: Server
    kubectl: Kubectl
    folder: Path
    """A folder for kubectl's caches and the files of the cases."""

    async def all(self, cases: Iterable[Case], at_once: int = 4) -> dict[str, Run]:
        """Run cases, some at the same time, and those that run alone after the others."""
        wanted = list(cases)
        turn = asyncio.Semaphore(at_once)

        async def one(case: Case) -> tuple[str, Run]:
            async with turn:
                return case.name, await self.run(case)

        async with self.server.client() as client:
            await _make(client, [objects.node(name, {"pool": "base"}) for name in objects.SHARED])
        found = dict(await asyncio.gather(*(one(case) for case in wanted if not case.alone)))
        for case in wanted:
            if case.alone:
                found[case.name] = await self.run(case)
        return found

    async def run(self, case: Case) -> Run:
        """Run a case, and remove what it has made."""
        word = "".join(secrets.choice(_LETTERS) for _ in range(7))
        places = {"<id>": word, "<ns>": f"ns-{word}", "<image>": objects.IMAGE}
        answers: list[Answer] = []
        async with self.server.client() as client:
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                places["<dir>"] = folder
                try:
                    await self._given(client, case, places)
                    _write(case.files, places)
                    for step in case.steps:
                        answers.append(await self._step(client, step, places))  # noqa: PERF401 - those before a failure count
                except (httpx.HTTPError, TimeoutError, OSError) as error:
                    return Run(tuple(answers), f"{type(error).__name__}: {error}")
                finally:
                    await self._remove(client, case, places)
        return Run(tuple(answers))

    async def _given(self, client: httpx.AsyncClient, case: Case, places: Mapping[str, str]) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": places["<ns>"]}}
        made = [namespace, *(objects.manifest(one) if isinstance(one, str) else one for one in case.given)]
        await _make(client, [objects.placed(one, places) for one in made])
        for one in made:
            await _settled(client, objects.placed(one, places))

    async def _step(self, client: httpx.AsyncClient, step: Step, places: Mapping[str, str]) -> Answer:
        if step.http:
            return _see(await _request(client, step, places), step, places)
        words = [_filled(word, places) for word in step.words]
        done = {"code": 0, "out": "", "err": ""}
        if not step.until:
            done = await self._kubectl(step, words, places)
            return _see(done, step, places)

        async def shown() -> bool:
            nonlocal done
            done = await self._kubectl(step, words, places)
            return bool(normal.lines(str(done["out"]), _filled(step.until, places), ordered=True))

        with contextlib.suppress(TimeoutError):  # the answer shows what was there instead
            await until(shown, _UNTIL_SECONDS)
        return _see(done, step, places)

    async def _kubectl(self, step: Step, words: Sequence[str], places: Mapping[str, str]) -> Answer:
        process = await asyncio.create_subprocess_exec(
            *self.kubectl.command,
            *self._where(words, places),
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(self.folder),
                "KUBECONFIG": str(self.server.kubeconfig),
                "TZ": "UTC",
                "TMPDIR": places["<dir>"],
                **{name: _filled(value, places) for name, value in step.env.items()},
            },
            cwd=places["<dir>"],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        talk = asyncio.ensure_future(process.communicate(_filled(step.stdin, places).encode()))
        try:
            if step.meanwhile:
                await asyncio.wait([talk], timeout=min(1.0, step.seconds))
                for more in step.meanwhile:
                    await self._kubectl(replace(step, meanwhile=(), stdin="", seconds=0), _all(more, places), places)
            done, _ = await asyncio.wait([talk], timeout=step.seconds or _COMMAND_SECONDS)
            if not done:
                process.send_signal(signal.SIGKILL)
            out, err = await talk
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        ended = process.returncode if done else "ended" if step.seconds else "too slow"
        return {"code": ended, "out": out.decode(errors="replace"), "err": err.decode(errors="replace")}

    def _where(self, words: Sequence[str], places: Mapping[str, str]) -> list[str]:
        """The words of a command in the namespace of the case, unless it says another."""
        if self.kubectl.program != KUBECTL:
            return list(words)
        cache = ["--cache-dir", str(self.folder / "cache")]
        given = {"-n", "-A", "--namespace", "--all-namespaces"} & set(words)
        own = [] if given or words[:1] in (["completion"], ["kustomize"]) else ["-n", places["<ns>"]]
        first, *rest = words
        return [first, *own, *cache, *rest]

    async def _remove(self, client: httpx.AsyncClient, case: Case, places: Mapping[str, str]) -> None:
        """Remove what the case was given, its namespace with all content last. What is gone already is no error."""
        given = [objects.manifest(one) if isinstance(one, str) else one for one in case.given]
        paths = [_path(objects.placed(one, places)) for one in given if "namespace" not in one["metadata"]]
        with contextlib.suppress(httpx.HTTPError):
            for path in (*paths, f"/api/v1/namespaces/{places['<ns>']}"):
                await client.delete(path)


def _write(files: Mapping[str, str], places: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = Path(places["<dir>"], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_filled(content, places))


def _all(words: Sequence[str], places: Mapping[str, str]) -> list[str]:
    return [_filled(word, places) for word in words]


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def _see(found: Answer, step: Step, places: Mapping[str, str]) -> Answer:
    """What of an answer counts, in its normal form."""
    out = str(found["out"])
    if step.keep:
        out = normal.kept(out, [_filled(path, places) for path in step.keep])
    own = {"DIR": places["<dir>"], "ID": places["<id>"]}
    texts = {"out": normal.text(out, own), "err": normal.text(str(found["err"]), own)}
    if step.lines or step.sort:
        texts["out"] = normal.lines(texts["out"], step.lines, ordered=not step.sort)
        texts["err"] = normal.lines(texts["err"], "", ordered=not step.sort)
    seen: Answer = {"code": found["code"], **texts}
    return {name: value for name, value in seen.items() if name in step.see}


async def _request(client: httpx.AsyncClient, step: Step, places: Mapping[str, str]) -> Answer:
    """Send a request. Of a Status its reason, message and causes count, else the whole body."""
    method, path = _filled(step.http, places).split(maxsplit=1)
    body = step.body if isinstance(step.body, str) else None if step.body is None else json.dumps(step.body)
    response = await client.request(
        method,
        path,
        content=None if body is None else _filled(body, places),
        headers={"content-type": step.media_type, "accept": step.accept},
    )
    heads = [f"{name}: {one}" for name in step.head for one in response.headers.get_list(name)]
    told = "".join(f"{one}\n" for one in (*response.headers.get_list("warning"), *heads))
    text = response.text
    with contextlib.suppress(ValueError):
        text = _told(json.loads(text))
    return {"code": response.status_code, "out": text, "err": told}


def _told(body: Any) -> str:
    if isinstance(body, dict) and body.get("kind") == "Status":
        parts = ("status", "reason", "message", "details", "code")
        body = {part: body[part] for part in parts if part in body}
    return json.dumps(body, indent=1, sort_keys=True) + "\n"


async def _make(client: httpx.AsyncClient, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Create objects. One that is there already is no error."""
    for one in manifests:
        response = await client.post(_collection(one), json=one)
        if response.status_code >= _ERROR and response.status_code != _CONFLICT:
            raise OSError(f"{one['kind']} {one['metadata']['name']}: {response.status_code}: {response.text}")


def _collection(one: Mapping[str, Any]) -> str:
    return objects.path_of(one)


def _path(one: Mapping[str, Any]) -> str:
    return f"{_collection(one)}/{one['metadata']['name']}"


async def _settled(client: httpx.AsyncClient, one: Mapping[str, Any]) -> None:
    """Return when a node is ready and without taints, a pod is ready, and a workload has all its replicas."""
    told: dict[str, Any] = {}

    async def settled() -> bool:
        response = await client.get(_path(one))
        told.clear()
        told.update(response.json())
        return response.status_code < _ERROR and _is_settled(told)

    waits = one.get("spec", {}).get("schedulerName") or one["metadata"].get("labels", {}).get("waits")
    if one["kind"] in {"Node", "Pod", "Deployment", "ReplicaSet", "StatefulSet"} and not waits:
        await until(settled, _READY_SECONDS, f"{one['kind']} {one['metadata']['name']} is not ready")


def _is_settled(found: Mapping[str, Any]) -> bool:
    status = found.get("status") or {}
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or []}
    match found["kind"]:
        case "Node":
            keys = [one["key"] for one in found["spec"].get("taints") or []]
            return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in keys
        case "Pod":
            return conditions.get("Ready") == "True"
        case _:
            return bool(status.get("readyReplicas", 0) == found["spec"]["replicas"])


@asynccontextmanager
async def driven(server: Server, kubectl: Kubectl) -> AsyncIterator[Driver]:
    """A driver with a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="kubectl-") as folder:
        yield Driver(server, kubectl, Path(folder))
