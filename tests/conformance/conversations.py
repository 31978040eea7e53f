"""Random conversations with a real kube-apiserver, and with Moorage's gateway.

    python -m tests.conformance.conversations --plane FOLDER [--count 200] [--seed TEXT] [--record]

Each request is sent to both, and the answers are compared whole: codes, reasons, messages, causes, warnings and
objects, apart from what differs by nature (uids, resource versions, times). The control plane needs Karmada's
definition of PropagationPolicy, and none of its controllers.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import httpx
from tests.component.gateway.double import Fixture
from tests.conformance.conversation_requests import JSON, MERGE, Conversation, Json, Request
from tests.conformance.patching_plane import VARIABLE, PlaneMissingError, connection

RECORDED = Path(__file__).parent / "vectors" / "apiserver" / "conversations.jsonl.gz"

_PATCHED = 'Invalid value: "{\\"'
"""What an object in a message begins with. The order of its fields is another one here."""

_DIFFERENCE = "previously negative)"
"""What a difference in a message comes after. It has the fields of the API here."""

_STORAGE = re.compile(r"StorageError: .*AdditionalErrorMsg: ")
"""The words of etcd's storage."""

_VERSION = re.compile(r"\b(resourceVersion:)\d+")
_AGE = re.compile(r"\d+s")
_SCHEME = ' in scheme "pkg/runtime/scheme.go:111"'
_LEFT_OUT = {
    "columnDefinitions": frozenset({"description"}),
    "managedFields": frozenset({"time"}),
    # Whoever has sent these in vain owns them in a kube-apiserver.
    "f:metadata": frozenset({"f:deletionTimestamp", "f:deletionGracePeriodSeconds"}),
}
"""Fields that are not compared, by the field that they are in."""

_TYPE = ("apiVersion", "kind")
"""What items of lists say here, and only those of custom resources in a kube-apiserver."""

_OF_MOORAGE = " stored and shown"
"""Is in warnings that nothing follows from objects of a kind."""

_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Server:
    """One of the two that are spoken with: fills in what a request stands for, and evens out its answers.

    Args:
        client: speaks with it.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._seen: dict[str, list[Json]] = {}
        self._is_dry = False

    async def answer(self, request: Request) -> Json:
        """What it answers."""
        headers, query = dict(request.headers), dict(request.query)
        name = request.path.rpartition("/")[2] if request.method != "POST" else self._named(request)
        body = None
        if request.body is not None or request.method in {"POST", "PUT", "PATCH"}:
            body = self._filled(json.dumps(request.body), name)
            headers.setdefault("content-type", JSON)
        query = {key: self._filled(value, name) for key, value in query.items()}
        response = await self._client.request(request.method, request.path, params=query, headers=headers, content=body)
        found: Json = {"code": response.status_code}
        warnings = [one for one in response.headers.get_list("warning") if _OF_MOORAGE not in one]
        if warnings:
            found["warnings"] = sorted(warnings)
        media = response.headers.get("content-type", "").partition(";")[0]
        if media != JSON:
            return {**found, "media": media}
        document = response.json()
        self._is_dry = request.query.get("dryRun") == "All"
        self._note(document)
        return {**found, "body": self._even(document)}

    @staticmethod
    def _named(request: Request) -> str:
        metadata = request.body.get("metadata") if isinstance(request.body, dict) else None
        return str(metadata.get("name")) if isinstance(metadata, dict) else ""

    def _filled(self, text: str, name: str) -> str:
        seen = self._seen.get(name) or [{"uid": "11111111-2222-3333-4444-666666666666", "resourceVersion": "1"}]
        text = text.replace("$uid", seen[-1]["uid"]).replace("$rv", seen[-1]["resourceVersion"])
        return text.replace("$first", seen[0]["resourceVersion"])

    def _note(self, document: Json) -> None:
        for one in [document, *(document.get("items") or ())]:
            metadata = one.get("metadata") or {}
            if metadata.get("uid") and metadata.get("resourceVersion"):
                seen = self._seen.setdefault(metadata["name"], [])
                if seen and seen[-1]["uid"] != metadata["uid"]:
                    seen.clear()
                seen.append({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]})

    def _even(self, value: Any, *, within: str = "") -> Any:
        """What a server answers without what differs by nature. `within` is the field that it is in."""
        if isinstance(value, dict):
            left = _LEFT_OUT.get(within, frozenset())
            if within == "metadata" and self._is_dry:  # of an object that would be new
                left = frozenset({"resourceVersion"})
            if _is_of_custom_resource(value):  # some of its causes are told twice, in any order
                left = frozenset({"message"})
            listed = _of_list(value) if "items" in value or "rows" in value else value
            return {key: self._even(one, within=key) for key, one in listed.items() if key not in left}
        if isinstance(value, list):
            found = [self._even(one, within=within) for one in value]
            if within in {"managedFields", "causes"}:  # in any order, and some causes are told twice
                return [json.loads(one) for one in sorted({json.dumps(one, sort_keys=True) for one in found})]
            return found
        return self._even_text(value, within) if isinstance(value, str) else value

    def _even_text(self, value: str, within: str) -> str:
        if within == "resourceVersion":
            return self._versions.setdefault(value, f"V{len(self._versions)}")
        if within == "cells" and _AGE.fullmatch(value):
            return "AGE"
        value = _TIMES.sub("TIME", value)
        value = _UID.sub(lambda found: self._uids.setdefault(found[0], f"UID{len(self._uids)}"), value)
        value = _VERSION.sub(r"\1", value)
        for version in sorted(self._versions, key=len, reverse=True):
            value = value.replace(f"({version})", f"({self._versions[version]})")
        return _STORAGE.sub("", value.split(_PATCHED)[0].split(_DIFFERENCE)[0]).replace(_SCHEME, "")


def _is_of_custom_resource(status: Json) -> bool:
    details = status.get("details")
    return isinstance(details, dict) and "causes" in details and str(details.get("group")).endswith(".karmada.io")


def _of_list(found: Json) -> Json:
    """A list or a table without its version, and without what only a kube-apiserver with other objects says of it."""
    metadata = {key: one for key, one in found["metadata"].items() if key not in {"resourceVersion", "continue"}}
    found = {**found, "metadata": metadata}
    if "items" in found:
        items = [{key: one for key, one in item.items() if key not in _TYPE} for item in found["items"] or ()]
        return {**found, "items": items}
    return {**found, "rows": found["rows"] or []}  # of some kinds, none are null


async def held(client: httpx.AsyncClient, seed: str) -> list[tuple[Request, Json]]:
    """A conversation with a server: the requests and its answers. Nothing is left of it."""
    conversation, server = Conversation(seed), Server(client)
    found = [(one, await server.answer(one)) for one in conversation.requests()]
    for path in conversation.names:
        patch = {"metadata": {"finalizers": None}}
        await client.patch(path, json=patch, headers={"content-type": MERGE})
        await client.request("DELETE", path, json={"gracePeriodSeconds": 0})
    return found


async def mine(seed: str) -> list[tuple[Request, Json]]:
    """The same conversation with a gateway of its own."""
    async with Fixture().running() as gateway:
        gateway.http.headers["user-agent"] = _AGENT
        return await held(gateway.http, seed)


_AGENT = "conversations/1"


def read() -> list[Json]:
    """The recorded conversations: the seed, and what a kube-apiserver answered to each request."""
    return [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines()]


def is_same(theirs: Json, own: Json) -> bool:
    """Whether two answers agree. What the client has sent wrongly is never an error of the server here."""
    if theirs["code"] >= httpx.codes.INTERNAL_SERVER_ERROR:
        return bool(httpx.codes.BAD_REQUEST <= own["code"] < httpx.codes.INTERNAL_SERVER_ERROR)
    return bool(theirs == own)


async def compared(folder: Path, seed: str, count: int, *, record: bool) -> int:
    """Hold conversations with both, tell where each begins to differ, and return the number of those that do.

    Raises:
        PlaneMissingError: there is no control plane.
    """
    differing, lines = 0, []
    async with httpx.AsyncClient(**connection(folder)) as client:
        client.headers["user-agent"] = _AGENT
        for number in range(count):
            one = f"{seed}-{number}"
            theirs, own = await held(client, one), await mine(one)
            answers = [answer for _, answer in theirs]
            lines.append(json.dumps({"seed": one, "answers": answers}, sort_keys=True, separators=(",", ":")))
            first = next((place for place, told in enumerate(answers) if not is_same(told, own[place][1])), None)
            if first is not None:
                differing += 1
                request = json.dumps(theirs[first][0].as_json())
                parts = (json.dumps(told, sort_keys=True) for told in (answers[first], own[first][1]))
                sys.stdout.write("{} {}\n  theirs: {}\n  mine:   {}\n".format(one, request, *parts))
    if record:
        RECORDED.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    return differing


def main() -> int:
    """Hold conversations, compare the answers, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="number of conversations (default 200)")
    parser.add_argument("--seed", default="", help="seed of the conversations; by default a new one")
    parser.add_argument("--plane", default=os.environ.get(VARIABLE, ""), help="folder with a kubeconfig")
    parser.add_argument("--record", action="store_true", help="keep the answers for the tests")
    options = parser.parse_args()
    seed = options.seed or secrets.token_hex(4)
    try:
        differing = asyncio.run(compared(Path(options.plane), seed, options.count, record=options.record))
    except PlaneMissingError as problem:
        sys.stderr.write(f"conversations: {problem}\n")
        return 2
    sys.stdout.write(json.dumps({"seed": seed, "conversations": options.count, "differing": differing}) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())
