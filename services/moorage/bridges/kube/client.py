"""A client of one kube-apiserver, for JSON as it is: without models, which would cost more than the requests.

The token of a service account ends. In a pod the kubeconfig is a file of a Secret, and the kubelet replaces its
content (`Kubeconfig`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import orjson
import structlog
from aiohttp.helpers import get_env_proxy_for_url
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
from prometheus_client import Counter
from yaml import YAMLError
from yarl import URL

from moorage.bridges.kube.api_error import FORBIDDEN, NAMESPACE_TERMINATING, UNAUTHORIZED, ApiError
from moorage.bridges.kube.permissions import ClusterPermission, MissingPermissions
from moorage.bridges.kube.request_limits import MOST, Flight, FlightLimiter, RequestLimiter
from moorage.runtime.process.failures import RuntimeFailure

_log = structlog.get_logger(__name__)

_AGAIN: Final = 5.0
"""Seconds before the file is read again. Many requests may be refused at once."""

_TOKEN: Final = "BearerToken"  # noqa: S105 - the name under which it is kept


@dataclass(eq=False)
class Kubeconfig:
    """A kubeconfig, and the user of one of its contexts.

    `kubernetes_asyncio` reads it. It merges the files of `KUBECONFIG`, runs credential plugins, and renews tokens of
    identity providers.

    Attributes:
        file: empty means that of `KUBECONFIG` or `~/.kube/config`.
        context: empty for its current one.
    """

    file: str = ""
    context: str = ""
    _read_at: float = field(default=float("-inf"), init=False)

    async def load(self, configuration: Configuration) -> None:
        """Write the content of the file into a configuration.

        Raises:
            ConfigException: it is not a kubeconfig, or has no such context.
            OSError: it cannot be read.
        """
        await load_kube_config(
            config_file=self.file or None, context=self.context or None, client_configuration=configuration
        )

    async def renew(self, configuration: Configuration) -> None:
        """Write into a configuration the token that the file has now, because the present one is refused.

        Certificates stay those of the start. So does the token while the file cannot be read.
        """
        now = asyncio.get_running_loop().time()
        if now - self._read_at < _AGAIN:
            return
        self._read_at = now
        found = Configuration()
        try:
            await self.load(found)
        except (ConfigException, OSError, YAMLError) as error:
            _log.warning("kubeconfig.not_read", file=self.file, error=str(error))
            return
        token = found.api_key.get(_TOKEN)
        if token and token != configuration.api_key.get(_TOKEN):
            configuration.api_key[_TOKEN] = token
            _log.info("kubeconfig.token_renewed", file=self.file)


REQUESTS = Counter("moorage_bridge_requests_total", "Requests to the real cluster that were answered", ["verb", "code"])

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

FIELD_MANAGER: Final = "moorage"
"""The name under which a bridge writes, in `metadata.managedFields`."""

_TRIES: Final = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, connect=5)
_SILENCE: Final = 90.0
"""Seconds without a byte after which a watch begins anew. A kube-apiserver sends a bookmark about every minute, but
not always of resources on which nothing has happened since it started."""

_KEPT_OPEN: Final = 75.0
"""Seconds for which a connection without requests is kept open. A kube-apiserver closes it after 90 s."""

_READ_AT_ONCE: Final = 1 << 21  # bytes; an object may have 1.5 MB, and is one line of a watch
_PAGE: Final = "500"
_SHOWN: Final = 100  # bytes of an answer that cannot be read
_AUTHENTICATION: Final = ["BearerToken"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A cluster, its user, and the limits of requests.

    Attributes:
        kubeconfig: the file. Empty means that of `KUBECONFIG` or `~/.kube/config`, or the service account of the pod
            in which this runs.
        context: the context in it. Empty for its current one.
        in_flight: the upper bound of the requests in flight. Below it their number follows the server.
        qps: the requests in a second. 0 sets no limit.
        burst: the requests at once after a pause, if `qps` limits them.
    """

    kubeconfig: str = ""
    context: str = ""
    in_flight: int = MOST
    qps: float = 0.0
    burst: int = 200


class KubeClient:
    """A client of one kube-apiserver. Use `connect`.

    Args:
        api: what `kubernetes_asyncio` has made of a kubeconfig: the address, TLS, and the user.
        access: has the limits of requests.
        kubeconfig: has the credentials, if they come from one.
    """

    def __init__(
        self,
        api: ApiClient,
        access: ClusterAccess,
        kubeconfig: Kubeconfig | None = None,
        refusals: MissingPermissions | None = None,
    ) -> None:
        self._api = api
        self._access = access
        self._flight = FlightLimiter(access.in_flight)
        self._rate = RequestLimiter(access.qps, access.burst)
        self._kubeconfig = kubeconfig
        self.refusals = MissingPermissions() if refusals is None else refusals
        """The refused permissions."""

        self._session: aiohttp.ClientSession = api.rest_client.pool_manager
        configured = {"proxy": api.configuration.proxy, "proxy_headers": api.configuration.proxy_headers}
        self._proxy = configured if api.configuration.proxy else environment_proxy(api.configuration.host)
        self.server: str = str(api.configuration.host).rstrip("/")
        self.heard_at = float("-inf")
        """The loop's time at which the server last answered."""

    @classmethod
    async def connect(cls, access: ClusterAccess, refusals: MissingPermissions | None = None) -> Self:
        """Return a client. Nothing is sent yet.

        Raises:
            RuntimeFailure: there is no such kubeconfig or context, and this is no pod.
        """
        configuration = Configuration()
        kubeconfig: Kubeconfig | None = None
        try:
            if not access.kubeconfig and not access.context and _is_in_cluster():
                load_incluster_config(client_configuration=configuration)
            else:
                kubeconfig = Kubeconfig(access.kubeconfig, access.context)
                await kubeconfig.load(configuration)
        except (ConfigException, OSError) as error:
            where = access.kubeconfig or "the kubeconfig"
            raise RuntimeFailure(f"{where}: the cluster to bridge cannot be read from it: {error}") from None
        configuration.connection_pool_maxsize = 0  # watches stay open, and requests are limited below
        api = ApiClient(configuration)
        # The library has no parameter for it. After the default of 15 s each act would begin with a TLS handshake.
        api.rest_client.pool_manager.connector._keepalive_timeout = _KEPT_OPEN  # noqa: SLF001 - see above
        # The library's session trusts the environment.
        session: aiohttp.ClientSession = api.rest_client.pool_manager
        api.rest_client.pool_manager = aiohttp.ClientSession(connector=session.connector, read_bufsize=_READ_AT_ONCE)
        session.detach()
        return cls(api, access, kubeconfig, refusals)

    def beside(self) -> KubeClient:
        """Return a client of the same cluster over the same connections, which waits for none of its requests.

        It is closed with this one.
        """
        return KubeClient(self._api, self._access, self._kubeconfig, self.refusals)

    @property
    def room(self) -> int:
        """How many requests may be in flight now. It follows the server."""
        return self._flight.limit

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> JsonObject:
        """Read an object or a list, as `request` does."""
        return await self.request("GET", path, params=params)

    async def pages(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[JsonObject]:
        """Yield a list part by part, with the kind and the version in each of its `items`."""
        wanted = {**(params or {}), "limit": _PAGE}
        while True:
            page = await self.get(path, wanted)
            kind, version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion", "")
            page["items"] = [{"kind": kind, "apiVersion": version, **one} for one in page.get("items") or ()]
            yield page
            if not (token := (page.get("metadata") or {}).get("continue")):
                return
            wanted["continue"] = token

    async def objects(self, path: str) -> AsyncIterator[JsonObject]:
        """Yield all objects of a list, with their kind and version, as they are when their part of it is read."""
        async for page in self.pages(path):
            for one in page["items"]:
                yield one

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        tries: int = _TRIES,
        is_next: bool = False,
    ) -> JsonObject:
        """Send a request, and return the decoded answer.

        A request that the server is too busy for is sent again, after the time that the server names. So is one that
        may have been carried out because its answer was lost: all requests of a bridge may be repeated.

        Args:
            method: of HTTP.
            path: with the leading slash.
            params: the query.
            body: is sent as JSON.
            content_type: of the body.
            tries: how often it is sent at most.
            is_next: whether it goes before the requests that wait for a place in flight, because it completes an act.

        Raises:
            ApiError: the server refuses.
            OSError: the server cannot be reached, after several attempts.
        """
        pause = _FIRST_PAUSE
        for attempt in range(1, tries + 1):
            try:
                async with self._flight.place(is_next=is_next) as flight:
                    await self._rate.take()
                    raw = await self._once(method, path, params, body, content_type, flight=flight)
                return self._object(raw, f"{method} {path}") if raw else {}
            except ApiError as error:
                if not error.is_overload or attempt == tries:
                    raise
                wait = error.retry_after if error.retry_after is not None else pause
            except OSError:
                if attempt == tries:
                    raise
                wait = pause
            pause = min(pause * 2, _LONGEST_PAUSE)
            # Requests that were refused together are not repeated together.
            await asyncio.sleep(min(wait, _LONGEST_PAUSE) * random.uniform(1.0, 1.2))  # noqa: S311 - no secret
        raise AssertionError("unreachable")

    async def ping(self) -> None:
        """Check that the server is ready. This needs no permission, and waits for no place in flight.

        Raises:
            ApiError: it is not ready.
            OSError: it cannot be reached.
        """
        await self._once("GET", "/readyz", None, None, JSON)

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        *,
        flight: Flight | None = None,
    ) -> bytes:
        """Send a request, and return the answer as it is. Its place in flight learns how it went."""
        headers = {"content-type": content_type} if body is not None else {}
        data = orjson.dumps(body) if body is not None else None
        try:
            async with self._session.request(
                method,
                self.server + path,
                params=params,
                data=data,
                headers=await self._headers(headers),
                timeout=_TIMEOUT,
                **self._proxy,
            ) as answer:
                self._heard(method, answer.status)
                if flight is not None:
                    self._flight.answered(flight, ClusterPermission.of(method, path, params).kind)
                await self._check(answer, method, path, params)
                return await answer.read()
        except ApiError as error:
            if flight is not None and error.is_refusal:
                self._flight.refused(flight)
            raise
        except aiohttp.ClientError as error:
            raise OSError(f"{self.server}: {error}") from error
        except TimeoutError as error:
            if flight is not None:
                self._flight.refused(flight)
            raise OSError(f"{self.server}: no answer within {_TIMEOUT.total} s") from error

    async def watch(self, path: str, params: Mapping[str, str]) -> AsyncIterator[JsonObject]:
        """Yield the events of a watch until the server ends it, or until nothing arrives.

        The latter is no error: a kube-apiserver may send no bookmarks for minutes of a resource on which nothing
        happens. But the connection may be cut without a word, so the watch has to begin anew.

        Raises:
            ApiError: the server refuses.
            OSError: the server cannot be reached, or the connection is cut.
        """
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=_SILENCE)
        try:
            async with self._session.get(
                self.server + path, params=params, headers=await self._headers({}), timeout=timeout, **self._proxy
            ) as answer:
                self._heard("WATCH", answer.status)
                await self._check(answer, "GET", path, params)
                rest = b""
                async for chunk in answer.content.iter_any():
                    self.heard_at = asyncio.get_running_loop().time()
                    *lines, rest = (rest + chunk if rest else chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield self._object(line, f"a watch of {path}")
        except aiohttp.SocketTimeoutError:
            return
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OSError(f"{self.server}: {error}") from error

    def _object(self, raw: bytes, asked: str) -> JsonObject:
        """Decode an answer, which may come from something between here and the server, such as a page to log in."""
        found = _decoded(raw)
        if isinstance(found, dict):
            return found
        said = raw[:_SHOWN].decode(errors="replace")
        raise OSError(f"{self.server}: {asked}: the answer is no JSON object: {said!r}")

    async def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        """Return the headers of a request with its credentials. Tokens that expire are renewed here."""
        query: list[tuple[str, str]] = []
        await self._api.update_params_for_auth(headers, query, _AUTHENTICATION)
        return {**headers, "accept": JSON, "user-agent": "moorage-bridge"}

    async def _check(
        self, answer: aiohttp.ClientResponse, method: str, path: str, params: Mapping[str, str] | None
    ) -> None:
        """Raise the error of an answer. Note what is not permitted, and read other credentials if these are refused."""
        if answer.status < 400:  # noqa: PLR2004 - the first status of an error
            if self.refusals:
                self.refusals.permitted(ClusterPermission.of(method, path, params))
            return
        error = ApiError.of(answer.status, _decoded(await answer.read()), answer.headers.get("retry-after"))
        if error.status == FORBIDDEN and NAMESPACE_TERMINATING not in error.causes:
            self.refusals.note(ClusterPermission.of(method, path, params), error.message)
        elif error.status == UNAUTHORIZED and self._kubeconfig is not None:
            await self._kubeconfig.renew(self._api.configuration)
        raise error

    def _heard(self, verb: str, status: int) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        REQUESTS.labels(verb, f"{status // 100}xx" if status != 429 else "429").inc()  # noqa: PLR2004 - too many requests


def _decoded(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode(errors="replace")


def environment_proxy(server: str) -> dict[str, Any]:
    """Return the arguments of aiohttp's requests to a server for the proxy of the environment. Empty without one.

    A session that trusts the environment looks it up, and reads `.netrc`, before each request in a thread. That took a
    tenth of a busy bridge's processor time.
    """
    try:
        proxy, user = get_env_proxy_for_url(URL(server))
    except LookupError:
        return {}
    return {"proxy": proxy, "proxy_headers": {"proxy-authorization": user.encode()} if user is not None else None}


def _is_in_cluster() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()
