"""Requests of a bridge to the gateway: the objects of its cluster, and condition reports."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import aiohttp
import orjson

from moorage.bridges.engine.fleet_names import advice, advice_on_names
from moorage.bridges.kube.client import environment_proxy
from moorage.runtime.process.failures import RuntimeFailure

MIRROR_PATH: Final = "/v1/mirror"
CONDITIONS_PATH: Final = "/v1/conditions"

_NOT_WAITING: Final = ("prefer", "respond-async")
"""The bridge goes by the topics, so it does not wait until the gateway shows what is written."""

_BATCH: Final = "application/cloudevents-batch+json"
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30.0, connect=5.0)
_KEPT_OPEN: Final = 4.0  # seconds for which a connection without requests is kept open; the gateway closes it after 5
_ERROR: Final = 300
_CONFLICT: Final = 409
_EXISTS: Final = "AlreadyExists"


class GatewayError(Exception):
    """A request that the gateway did not carry out.

    Attributes:
        status: the HTTP status. 0 if there was no answer.
        other_name: the name under which the cluster is mirrored already, if that is why the gateway refuses.
    """

    def __init__(self, status: int, message: str, other_name: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.other_name = other_name


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """Where the gateway is, and what it is shown.

    Attributes:
        headers: the headers of each request, such as a token that is renewed on disk.
        tls: what a connection by HTTPS trusts and shows.
    """

    server: str
    headers: Callable[[], Sequence[tuple[str, str]]] = field(default=lambda: (), repr=False)
    tls: Callable[[], ssl.SSLContext] = field(default=ssl.create_default_context, repr=False)


class GatewayClient:
    """A client of the gateway for batches. A context manager.

    Args:
        address: of the gateway.
        keeps_taints: whether the cluster's own controllers decide on the taints of its targets.
    """

    def __init__(self, address: GatewayAddress, *, keeps_taints: bool = False) -> None:
        self._address = address
        self._keeps_taints = keeps_taints
        self.cluster_uid = ""
        """The uid of the cluster that is mirrored. While it is empty, the gateway does not check it."""

        self._server = address.server.rstrip("/")
        self._proxy = environment_proxy(self._server)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        tls = self._address.tls() if self._server.startswith("https:") else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, keepalive_timeout=_KEPT_OPEN), timeout=_TIMEOUT
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def mirror(
        self, source: str, cluster: str, objects: Sequence[dict[str, Any]], deleted: Sequence[dict[str, str]]
    ) -> list[dict[str, Any]]:
        """Send objects of a cluster as they are now, and which were deleted. Return the outcomes in this order.

        Raises:
            GatewayError: nothing was written, or it is not known whether it was.
            RuntimeFailure: the bridge has mirrored another cluster, which has to be forgotten first, or the cluster is
                mirrored under another name.
        """
        body: dict[str, Any] = {"source": source, "cluster": cluster, "objects": objects, "deleted": deleted}
        if self.cluster_uid:
            body["clusterUID"] = self.cluster_uid
        if self._keeps_taints:
            body["keepsTaints"] = True
        try:
            count = len(objects) + len(deleted)
            return await self._post(MIRROR_PATH, body, "application/json", "results", count, _NOT_WAITING)
        except GatewayError as error:
            if error.other_name:
                raise RuntimeFailure(f"{error}. {advice_on_names(cluster, error.other_name)}") from None
            if error.status == _CONFLICT:
                raise RuntimeFailure(f"{error}. {advice(source, cluster)}") from None
            raise

    async def report(self, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send condition reports as CloudEvents. Return the outcome of each.

        Raises:
            GatewayError: some may have been written; they may be sent again.
        """
        return await self._post(CONDITIONS_PATH, events, _BATCH, "items", len(events))

    async def _post(
        self, path: str, body: Any, content_type: str, listed: str, count: int, *more: tuple[str, str]
    ) -> list[dict[str, Any]]:
        """Send a batch, with `more` headers. Return the outcome of each of its parts, which the answer lists."""
        headers = [("content-type", content_type), ("user-agent", "moorage-bridge"), *more, *self._address.headers()]
        if self._session is None:
            raise RuntimeError("a GatewayClient is used inside `async with`")
        try:
            async with self._session.post(
                self._server + path, data=orjson.dumps(body), headers=headers, **self._proxy
            ) as answer:
                status, content = answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise GatewayError(0, f"{self._address.server}: {str(error) or type(error).__name__}") from error
        try:
            found = orjson.loads(content)
        except orjson.JSONDecodeError:
            found = None
        document: dict[str, Any] = found if isinstance(found, dict) else {}
        # A batch of which every part is refused has the status of the first, and still has the outcome of each.
        parts = document.get(listed)
        if status >= _ERROR and parts is None:
            text = document.get("message") or content.decode(errors="replace")[:200]
            message = f"{self._address.server}{path}: {status} {text}"
            raise GatewayError(status, message, _other_name(document))
        if not isinstance(parts, list) or len(parts) != count or not all(isinstance(one, dict) for one in parts):
            text = f"{status} without {count} {listed}: {content.decode(errors='replace')[:200]!r}"
            raise GatewayError(status, f"{self._address.server}{path}: {text}")
        return parts


def _other_name(status: dict[str, Any]) -> str:
    """Return the name under which a cluster is mirrored already, if the gateway refuses a batch because of that."""
    if status.get("reason") != _EXISTS:
        return ""
    return str((status.get("details") or {}).get("name", ""))
