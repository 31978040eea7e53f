"""Recorded requests about patches with upstream's answers, and how they are asked and kept.

A line of the file is one request that stands alone, or a chain of requests for one object. In a chain, the answer to a
request is the object that the next one finds, so it is not repeated; of the answer to an update, which changes nothing
but the entries of `managedFields`, only these are kept.
"""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.patching import Answer, Request, Requests, is_custom, models, moved_to
from tests.support.typed_documents import Document

Pair = tuple[Request, Answer]

_ASKED_AGAIN = 10
"""How often a request is asked again. Where upstream goes through a map of Go's, its answer may vary."""


class Oracle:
    """Upstream's code, in a program that answers line by line."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the oracle has no pipes")
        if request["op"] in {"apply", "update"} and is_custom(request):
            request = {**request, "models": models(request)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: Answer = json.loads(self._process.stdout.readline())
        answer.get("causes", []).sort()
        return answer

    def settled(self, request: Request) -> Answer | None:
        """Return the answer to a request. None if it varies, or the program has failed."""
        answer = self.ask(request)
        if "panic" in answer.get("error", ""):
            return None
        if "result" in answer and request["op"] in {"apply", "update"}:
            return answer
        return answer if all(self.ask(request) == answer for _ in range(_ASKED_AGAIN)) else None

    def typed(self, kind: Request, document: Document) -> Document:
        """Return a document in the shape of upstream's type. A custom resource has none."""
        if is_custom(kind):
            return document
        answer = self.ask({**kind, "op": "typed", "document": document})
        if "result" not in answer:
            raise ValueError(f"{kind}: {answer['error']}")
        found: Document = answer["result"]
        return found

    def close(self) -> None:
        """End the program."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def made(oracle: Oracle, seed: str, count: int) -> Iterator[list[Pair]]:
    """Random requests with upstream's answers, many of them in chains.

    Args:
        oracle: upstream's code.
        seed: of everything that is random.
        count: the number of requests, at least.
    """
    requests = Requests(seed, oracle.typed)
    done = 0
    while done < count:
        request = requests.one()
        answer = oracle.settled(request)
        pairs = [[(request, answer)]] if answer is not None else []
        pairs.append(list(_chained(requests, oracle)) if done % 8 == 0 else [])
        for one in pairs:
            done += len(one)
            if one:
                yield one


def _chained(requests: Requests, oracle: Oracle) -> Iterator[Pair]:
    chain = requests.chain()
    request = next(chain)
    while True:
        answer = oracle.settled(request)
        if answer is not None:
            yield request, answer
        try:
            request = chain.send(answer or {})
        except StopIteration:
            return


def written(lines: Iterable[Sequence[Pair]], path: Path) -> None:
    """Write pairs to a file."""
    text = "".join(json.dumps(_packed(pairs), separators=(",", ":")) + "\n" for pairs in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def read(path: Path) -> Iterator[Pair]:
    """The pairs in a file."""
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        yield from _unpacked(json.loads(line))


_OF_A_KIND = ("group", "version", "kind")


def _packed(pairs: Sequence[Pair]) -> Document:
    first = pairs[0][0]
    kind = [first[name] for name in _OF_A_KIND]
    if first["op"] not in {"apply", "update"}:
        ((request, answer),) = pairs
        return {"kind": kind, "request": _without_kind(request), "answer": answer}
    steps = []
    live: Document | None = None
    for number, (request, answer) in enumerate(pairs):
        step = {key: value for key, value in _without_kind(request).items() if key != "document"}
        if request["document"] != live:
            step["document"] = request["document"]
        steps.append([step, _packed_answer(request, answer)])
        live = moved_to(number, answer["result"]) if "result" in answer else live
    return {"kind": kind, "steps": steps}


def _without_kind(request: Request) -> Request:
    # What the server made of Moorage's result is of that time alone.
    return {key: value for key, value in request.items() if key not in {*_OF_A_KIND, "replaced"}}


def _packed_answer(request: Request, answer: Answer) -> Answer:
    if request["op"] != "update" or "result" not in answer:
        return answer
    entries = answer["result"]["metadata"].get("managedFields")
    return {"entries": entries} if _with_entries(request["modified"], entries) == answer["result"] else answer


def _with_entries(document: Document, entries: Any) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key != "managedFields"}
    return {**document, "metadata": {**metadata, **({"managedFields": entries} if entries is not None else {})}}


def _unpacked(line: Document) -> Iterator[Pair]:
    kind = dict(zip(_OF_A_KIND, line["kind"], strict=True))
    if "steps" not in line:
        yield {**kind, **line["request"]}, line["answer"]
        return
    live: Document | None = None
    for number, (step, packed) in enumerate(line["steps"]):
        request = {**kind, "document": live, **step}
        answer = packed
        if "entries" in packed:
            answer = {"result": _with_entries(request["modified"], packed["entries"])}
        yield request, answer
        live = moved_to(number, answer["result"]) if "result" in answer else request["document"]
