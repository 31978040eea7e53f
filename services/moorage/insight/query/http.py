"""`GET /v1/explain` and `POST /v1/simulate`: answers as JSON, or with a `Status` like the gateway."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moorage.apiserver.authentication.jwts import InvalidCredentialsError
from moorage.apiserver.authentication.peers import Peers
from moorage.apiserver.http.filters.hosts import check_host, hosts_of
from moorage.apiserver.http.filters.request_attributes import EXPLAIN_PATH, SIMULATE_PATH
from moorage.apiserver.http.messages import bodies
from moorage.apiserver.machinery.api_errors import Cause, StatusError, bad_request, not_found, unavailable
from moorage.insight.diff.question import SimulationError
from moorage.insight.diff.question import parse as question_of_simulation
from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.question import WITHOUT_NAMESPACE, Question, QuestionError
from moorage.insight.query.simulations import BusyError, Simulator
from moorage.insight.query.worker import REQUESTS, SECONDS, Answer, NotReadyError, QueryWorker
from moorage.runtime.kafka.tables.shared_reader import SharedReader
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings

_log = structlog.get_logger(__name__)

_PARAMETERS: Final = ("kind", "namespace", "name", "node", "cluster", "all", "within")
_SWITCH: Final = {"": False, "false": False, "true": True}


class Endpoint:
    """Serves a query worker's explanations over HTTP.

    Args:
        settings: the permitted hosts, and the key with which gateways sign.

    Raises:
        RuntimeFailure: other machines could send requests without a signature, or the key cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._hosts = hosts_of(settings)
        self._peers = _peers(settings)
        self._worker: QueryWorker | None = None
        self._simulator: Simulator | None = None

    def make(self, settings: Settings, shared: SharedReader | None = None) -> QueryWorker:
        """Return the worker that answers. It has readers of its own, or one that is shared by the process."""
        self._worker = QueryWorker(settings, shared=shared)
        self._simulator = Simulator(settings)
        return self._worker

    @property
    def routes(self) -> list[Route]:
        """The routes to serve."""
        return [
            Route(EXPLAIN_PATH, self._serve, methods=["GET"]),
            Route(SIMULATE_PATH, self._serve, methods=["POST"]),
        ]

    async def _serve(self, request: Request) -> Response:
        began = time.monotonic()
        try:
            check_host(request, self._hosts)
            self._check_peer(request)
            if request.url.path == SIMULATE_PATH:
                response = _json(200, await self._simulate(await bodies.read_body(request)))
            else:
                response = _json(200, _document(await self._answer(request.query_params)))
        except StatusError as error:
            response = _json(error.code, error.document())
            if error.retry_after:
                response.headers["retry-after"] = str(error.retry_after)
        except Exception:  # noqa: BLE001 - the client must get an answer, and the traceback is logged
            _log.exception("query.request_failed", query=request.url.query)
            response = _json(500, StatusError(500, "the query worker failed on this; its log says more").document())
        REQUESTS.labels(str(response.status_code)).inc()
        SECONDS.observe(time.monotonic() - began)
        return response

    def _check_peer(self, request: Request) -> None:
        """Answer gateways alone, which have checked for whom they ask."""
        if self._peers is None:
            return
        try:
            self._peers.user(request.headers.get("authorization", "").removeprefix("Bearer "))
        except InvalidCredentialsError as error:
            _log.warning("query.refused", why=str(error))
            raise StatusError(401, "Unauthorized", reason="Unauthorized") from None

    async def _simulate(self, body: bytes) -> dict[str, Any]:
        try:
            question = question_of_simulation(bodies.parse_json(body))
        except SimulationError as error:
            raise bad_request(str(error)) from None
        if self._simulator is None:
            raise unavailable("the query worker is not ready: it is starting")
        try:
            return await self._simulator.answer(question)
        except SimulationError as error:
            raise StatusError(422, f"the change would be refused: {error}", reason="Invalid") from None
        except BusyError as error:
            raise unavailable(f"nothing can be simulated now: {error}") from None

    async def _answer(self, given: Mapping[str, str]) -> Answer:
        try:
            asked = question_of(given)
            if self._worker is None:
                raise unavailable("the query worker is not ready: it is starting")
            return await self._worker.explain(asked)
        except QuestionError as error:
            raise bad_request(str(error), [Cause("FieldValueInvalid", error.rule, error.field)]) from None
        except NotFoundError as error:
            plural, _, group = error.resource.partition(".")
            raise not_found(group, plural, error.name) from None
        except NotReadyError as error:
            raise unavailable(f"the query worker is not ready: {error}") from None


def question_of(given: Mapping[str, str]) -> Question:
    """Return the question in a request's parameters.

    Raises:
        QuestionError: a parameter is unknown, missing or invalid.
    """
    for name, value in given.items():
        if name not in _PARAMETERS:
            raise QuestionError(name, value, f"must be one of {', '.join(_PARAMETERS)}")
    every = _SWITCH.get(given.get("all", ""))
    if every is None:
        raise QuestionError("all", given["all"], "must be true or false")
    return Question(
        kind=given.get("kind", ""),
        namespace=given.get("namespace", "" if given.get("kind") in WITHOUT_NAMESPACE else "default"),
        name=given.get("name", ""),
        node=given.get("node", ""),
        cluster=given.get("cluster", ""),
        every=every,
        within=given.get("within", ""),
    )


def _peers(settings: Settings) -> Peers | None:
    key = settings.service_account_signing_key_file
    if not key and settings.listens_on_loopback:
        return None
    if not key:
        raise RuntimeFailure(
            f"MOORAGE_HTTP_HOST: invalid value {settings.http_host!r}: others than this machine would read everything "
            "from the query worker. Set MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE to the gateways' key, or listen on "
            "127.0.0.1."
        )
    try:
        return Peers(key, timedelta(seconds=settings.authentication_clock_skew))
    except OSError as error:
        raise RuntimeFailure(
            f"MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE: invalid value {key!r}: cannot be read: {error.strerror}"
        ) from None


def _document(answer: Answer) -> dict[str, Any]:
    return {
        "kind": "Explanation",
        "apiVersion": "moorage.io/v1alpha1",
        "positions": answer.positions,
        "explanation": answer.document,
    }


def _json(code: int, document: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(document), code, media_type="application/json")
