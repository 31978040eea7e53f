"""Informers that use the Python clients of Kubernetes. What they are told is counted as by `informer.Informer`."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import kubernetes
import kubernetes_asyncio
import urllib3
from tests.kubectl.informer import Informer

_GONE: Final = 410
_PAUSE: Final = 0.05  # seconds before a request is sent again
_WATCH: Final = {"allow_watch_bookmarks": True, "timeout_seconds": 30}
_LOST: Final = (
    urllib3.exceptions.HTTPError,
    aiohttp.ClientError,
    asyncio.TimeoutError,
    OSError,
    ValueError,
)
"""What the clients raise when a connection or its gateway is lost."""


@dataclass
class TypedInformer(Informer):
    """Follows with `kubernetes`, in a thread."""

    kubeconfig: Path = Path()
    _ended: threading.Event = field(default_factory=threading.Event)

    async def run(self) -> None:
        """See `Informer`."""
        loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(self._follow, loop)
        finally:
            self._ended.set()

    def end(self) -> None:
        """End the thread, with the watch that is open."""
        self._ended.set()

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        with kubernetes.config.new_client_from_config(str(self.kubeconfig)) as api:
            core = kubernetes.client.CoreV1Api(api)
            while not self._ended.is_set():
                try:
                    if not self.version:
                        answer = core.list_namespaced_config_map(self.namespace, _preload_content=False)
                        self.begin(json.loads(answer.data))
                        loop.call_soon_threadsafe(self.synced.set)
                    options = {**_WATCH, "resource_version": self.version, "_request_timeout": (5, 60)}
                    watch = kubernetes.watch.Watch()
                    for event in watch.stream(core.list_namespaced_config_map, self.namespace, **options):
                        self.take(event["type"], event["raw_object"])
                        if self._ended.is_set():
                            return
                except kubernetes.client.ApiException as error:
                    self._refused(error.status)
                except _LOST:
                    self._ended.wait(_PAUSE)
                self.counts.reconnects += 1

    def _refused(self, status: int) -> None:
        if status == _GONE:
            self.take("ERROR", {"code": status})
        else:
            self._ended.wait(_PAUSE)


@dataclass
class AsyncInformer(Informer):
    """Follows with `kubernetes_asyncio`."""

    kubeconfig: Path = Path()

    async def run(self) -> None:
        """See `Informer`."""
        config: Any = kubernetes_asyncio.client.Configuration()
        await kubernetes_asyncio.config.load_kube_config(str(self.kubeconfig), client_configuration=config)
        async with kubernetes_asyncio.client.ApiClient(config) as api:
            core = kubernetes_asyncio.client.CoreV1Api(api)
            while True:
                try:
                    await self._once(core)
                except kubernetes_asyncio.client.ApiException as error:
                    if error.status == _GONE:
                        self.take("ERROR", {"code": error.status})
                    else:
                        await asyncio.sleep(_PAUSE)
                except _LOST:
                    await asyncio.sleep(_PAUSE)
                self.counts.reconnects += 1

    async def _once(self, core: Any) -> None:
        if not self.version:
            answer = await core.list_namespaced_config_map(self.namespace, _preload_content=False)
            self.begin(json.loads(await answer.read()))
            self.synced.set()
        watch = kubernetes_asyncio.watch.Watch()
        options = {**_WATCH, "resource_version": self.version, "_request_timeout": 60}
        async with watch.stream(core.list_namespaced_config_map, self.namespace, **options) as stream:
            async for event in stream:
                self.take(event["type"], event["raw_object"])
