"""Requests that a fuzzer makes of the OpenAPI documents that a gateway serves, and what of its answers is wrong.

The fuzzer makes valid and invalid values of every parameter and body. Made up names would end every request with 404,
so most requests are steered: they are about a few objects in a namespace that is there, and their patches are objects
that were sent before.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx
import hypothesis
import schemathesis
import yaml
from schemathesis.core import NOT_SET
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from moorage.apiserver.machinery.protobuf import messages
from moorage.apiserver.machinery.protobuf.encoding import NotEncodableError

NAMESPACE: Final = "fuzzed"
_NAMES: Final = ("one", "two", "three")
_MODES: Final = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
_CHECKS: Final = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
_TOLD_OTHERWISE: Final = (
    "null is not of type",  # Upstream's encoder writes times that are not set as null, and so do answers here.
    '"lastTransitionTime" is a required property',  # Derived conditions have none (apiserver/kinds/status/ocm.py).
    '"limits" is a required property',  # Of a LimitRange without any. Upstream's encoder writes null.
    '"key" is a required property',  # A review is answered with what was asked.
)
"""How answers depart from their schemas on purpose."""

_KEPT: Final = 20
"""Bodies of a kind that are kept for its patches."""

_MOST_TOLD: Final = 20
_LONGEST_TOLD: Final = 1000
_WHOLE: Final = 2_000_000
_SERVER_ERROR: Final = 500
_ERROR: Final = 400

Json = dict[str, Any]
Case = schemathesis.Case[Any]


@dataclass
class Verdict:
    """What came of a run."""

    sent: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    operations: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    """What was wrong with answers, each with the first request that got such an answer."""

    def found(self, what: str, request: httpx.Request) -> None:
        """Note a fault. A run that goes wrong everywhere is told in part."""
        if len(self.wrong) < _MOST_TOLD:
            body = request.content[:_LONGEST_TOLD]
            self.wrong.setdefault(what, f"{request.method} {request.url} {dict(request.headers)} {body!r}")


@dataclass
class Fuzzer:
    """Sends requests to a gateway.

    Args:
        server: the gateway's address.
        seed: the same seed makes the same requests of the same documents.
    """

    server: str
    seed: int
    verdict: Verdict = field(default_factory=Verdict)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311 - seeded on purpose
        self._client = httpx.Client(base_url=self.server, timeout=60)
        self._sent: defaultdict[str, deque[Json]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def run(self, requests: int, *, operations: int | None = None, seconds: float) -> Verdict:
        """Send requests, spread over operations.

        Args:
            requests: how many.
            operations: how many operations are chosen by chance. None means all.
            seconds: after which no operation is begun any more.
        """
        end = time.monotonic() + seconds
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._client.post("/api/v1/namespaces", json=namespace).raise_for_status()
        chosen = list(self._operations())
        if operations is not None:
            chosen = self._dice.sample(chosen, min(operations, len(chosen)))
        # What creates objects comes first, so that there is something to read, patch and delete.
        chosen.sort(key=lambda one: ("post", "put", "patch", "get", "delete").index(one.method))
        for at, one in enumerate(chosen):
            if time.monotonic() > end:
                break
            share = (requests - self.verdict.sent) // (len(chosen) - at)
            for mode, count in zip(_MODES, (share - share // 2, share // 2), strict=True):
                self._examples(one, mode, count)
            self.verdict.operations += 1
        self._client.close()
        return self.verdict

    def _operations(self) -> Iterator[Any]:
        for path in self._client.get("/openapi/v3").json()["paths"].values():
            document = self._client.get(path["serverRelativeURL"]).json()
            for found in schemathesis.openapi.from_dict(document).get_all_operations():
                if not isinstance(found, Ok):
                    raise ValueError(f"{path} has an operation that cannot be read: {found.err()}")  # noqa: TRY004 - the document is wrong, not the code
                yield found.ok()

    def _examples(self, operation: Any, mode: schemathesis.GenerationMode, count: int) -> None:
        """Send so many requests of an operation."""
        if not count:
            return

        @hypothesis.seed(self.seed)
        @hypothesis.settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(operation.as_strategy(generation_mode=mode))
        def send(case: Case) -> None:
            self._send(case)

        send()

    def _send(self, case: Case) -> None:
        request = self._request(case)
        self.verdict.sent += 1
        is_watch = "watch" in request.url.params
        try:
            answer = self._client.send(request, stream=True)
            content = b"" if is_watch and answer.status_code < _ERROR else answer.read()
            answer.close()
        except httpx.TransportError as error:
            self.verdict.found(f"no answer: {error!r}", request)
            return
        self.verdict.codes[answer.status_code] += 1
        if len(content) > _WHOLE:
            self.verdict.found(f"an answer of {len(content)} bytes", request)
        if answer.status_code >= _ERROR:
            if flaw := _flaw_of_failure(answer, content):
                self.verdict.found(flaw, request)
        elif not is_watch:
            try:
                case.validate_response(answer, checks=_CHECKS)
            except FailureGroup as error:
                for one in error.exceptions:
                    told = " ".join(str(one).partition("Schema at")[0].split())
                    if not any(words in told for words in _TOLD_OTHERWISE):
                        self.verdict.found(f"{answer.status_code} does not conform: {told}", request)

    def _request(self, case: Case) -> httpx.Request:
        is_steered = self._dice.random() < 0.8
        parameters = dict(case.path_parameters or {})
        if is_steered:
            named = {"namespace": NAMESPACE, "name": self._dice.choice(_NAMES)}
            parameters |= {name: named[name] for name in parameters}
        path = case.path.format(**{name: quote(str(value), safe="") or "%20" for name, value in parameters.items()})
        query = {} if is_steered and self._dice.random() < 0.6 else dict(case.query or {})
        body, media = case.body, case.media_type or "application/json"
        if is_steered:
            body = self._steered(case, body, media, parameters)
        content = None if body is NOT_SET else self._written(body, media)
        headers = {} if content is None else {"content-type": media}
        headers["accept"] = self._dice.choice(("*/*", "application/json", "application/json", "application/yaml"))
        return self._client.build_request(case.method, path, params=query, content=content, headers=headers)

    def _steered(self, case: Case, body: Any, media: str, parameters: Mapping[str, Any]) -> Any:
        """A body that is about an object that may be there, or a patch that is an object sent before."""
        kind = case.path.partition("/{name}")[0]
        if case.method.lower() == "patch" and self._sent[kind]:
            body = self._dice.choice(self._sent[kind])
            if media == "application/json-patch+json":
                return [{"op": self._dice.choice(("add", "replace", "test")), "path": "/spec", "value": body}]
        if not isinstance(body, dict) or case.method.lower() == "delete":
            return body
        metadata = body.get("metadata")
        metadata = dict(metadata) if isinstance(metadata, dict) else {}
        for name in ("resourceVersion", "uid", "generateName", "finalizers", "managedFields", "ownerReferences"):
            metadata.pop(name, None)
        metadata["name"] = parameters.get("name") or self._dice.choice(_NAMES)
        metadata.pop("namespace", None)
        steered = {**body, "metadata": metadata}
        if case.method.lower() in {"post", "put"}:
            self._sent[kind].append(steered)
        return steered

    def _written(self, body: Any, media: str) -> bytes:
        if media == messages.MEDIA_TYPE:
            return self._protobuf(body)
        if isinstance(body, bytes):
            return body
        if media.endswith("yaml") and self._dice.random() < 0.5:
            return yaml.safe_dump(body).encode("utf-8", "surrogatepass")
        return json.dumps(body).encode("utf-8", "surrogatepass")

    def _protobuf(self, body: Any) -> bytes:
        """An object as protobuf, of which some bytes may be others."""
        try:
            made = bytearray(messages.encode_object(body))
        except (NotEncodableError, LookupError, AttributeError, ValueError, TypeError):
            made = bytearray(b"k8s\x00" + self._dice.randbytes(self._dice.randrange(200)))
        for _ in range(self._dice.choice((0, 0, 1, 3))):
            made[self._dice.randrange(len(made))] = self._dice.randrange(256)
        return bytes(made)


def _flaw_of_failure(answer: httpx.Response, content: bytes) -> str:
    """What is wrong with an answer that refuses. Empty if nothing is: it is a `Status` with the code."""
    if answer.status_code >= _SERVER_ERROR:
        return f"{answer.status_code}: {content[:_LONGEST_TOLD]!r}"
    try:
        said = yaml.safe_load(content) if "yaml" in answer.headers["content-type"] else json.loads(content)
    except ValueError as error:
        return f"{answer.status_code} is no document: {error}: {content[:_LONGEST_TOLD]!r}"
    if not isinstance(said, dict) or (said.get("kind"), said.get("code")) != ("Status", answer.status_code):
        return f"{answer.status_code} is no Status: {content[:_LONGEST_TOLD]!r}"
    return ""
