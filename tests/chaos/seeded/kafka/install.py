"""Puts the simulated clients in the place of aiokafka's, and takes chance and real time out of the runtime."""

from __future__ import annotations

import gc
import inspect
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import ModuleType
from typing import Any

from tests.chaos.seeded.kafka.admin import SimAdmin
from tests.chaos.seeded.kafka.cluster import Client, Cluster
from tests.chaos.seeded.kafka.consumer import SimConsumer
from tests.chaos.seeded.kafka.loop import Process, current_process
from tests.chaos.seeded.kafka.producer import SimProducer

from moorage.runtime.app import GC_THRESHOLDS  # importing it loads every module of the runtime that is patched

_CLIENTS: dict[str, type[Client]] = {
    "AIOKafkaConsumer": SimConsumer,
    "AIOKafkaProducer": SimProducer,
    "AIOKafkaAdminClient": SimAdmin,
}
_CLIENT_PLACES = (
    "moorage.runtime.kafka.clients.clients",
    "moorage.runtime.kafka.tables.offsets",
    "moorage.runtime.kafka.admin.topics_admin",
    "moorage.runtime.kafka.partition.worker",
)


@contextmanager
def installed(
    cluster: Cluster, outside: Process, told: Callable[[dict[str, Any]], None] | None = None
) -> Iterator[None]:
    """While this is open, what the runtime takes for Kafka is the cluster, and nothing in it is left to chance.

    Args:
        cluster: what everybody is connected to.
        outside: the process of what runs in none of the simulated ones.
        told: gets each line that is logged, with the process and the virtual time; logs are dropped without.
    """
    clients = {name: partial(_make, client, cluster, outside) for name, client in _CLIENTS.items()}
    logger = _Dropped() if told is None else _Told(cluster, told)
    instead = {
        **clients,
        "uuid": _Ids(cluster),
        "log": logger,
        "seconds": cluster.loop.time,
    }
    places = _places()
    before = [(holder, name, _get(holder, name)) for holder, name in places]
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        for holder, name in places:
            _set(holder, name, instead[name])
        yield
    finally:
        for holder, name, value in before:
            _set(holder, name, value)
        gc.set_threshold(*thresholds)


def _make(client: type[Client], cluster: Cluster, outside: Process, *args: Any, **options: Any) -> Client:
    return client(cluster, current_process() or outside, *args, **options)


_Holder = ModuleType | type | dict[str, Any]


def _get(holder: _Holder, name: str) -> Any:
    return holder[name] if isinstance(holder, dict) else getattr(holder, name)


def _set(holder: _Holder, name: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[name] = value
    else:
        setattr(holder, name, value)


@cache
def _places() -> list[tuple[_Holder, str]]:
    """What is replaced: module globals, and default arguments that measure real time.

    Those measure virtual time instead, in which no slice takes any.
    """
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("moorage.")]
    found: list[tuple[_Holder, str]] = []
    for module in modules:
        if module.__name__ in _CLIENT_PLACES:
            found += [(module, name) for name in _CLIENTS if hasattr(module, name)]
        found += [(module, name) for name in ("uuid", "log") if hasattr(module, name)]
        for _, kind in sorted(inspect.getmembers(module, inspect.isclass)):
            defaults = getattr(kind.__init__, "__kwdefaults__", None)
            if kind.__module__ == module.__name__ and defaults and callable(defaults.get("seconds")):
                found.append((defaults, "seconds"))
    # What there is by now is never garbage: it need not be looked through after each run.
    gc.collect()
    gc.freeze()
    return found


class _Ids:
    """`uuid`, without chance."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def uuid4(self) -> uuid.UUID:
        """An identifier that is drawn from the seed."""
        return uuid.UUID(int=self._cluster.rng.getrandbits(128), version=4)

    def __getattr__(self, name: str) -> Any:
        return getattr(uuid, name)


class _Dropped:
    """A logger of nothing."""

    def _drop(self, *_: Any, **__: Any) -> None:
        return None

    debug = info = warning = error = exception = critical = _drop

    def is_enabled_for(self, _level: int) -> bool:
        """Never."""
        return False

    isEnabledFor = is_enabled_for  # noqa: N815 - the standard library's name

    def bind(self, **_: Any) -> _Dropped:
        """Itself."""
        return self


class _Told(_Dropped):
    """A logger that tells a function."""

    def __init__(self, cluster: Cluster, told: Callable[[dict[str, Any]], None]) -> None:
        self._cluster = cluster
        self._told = told

    def _drop(self, event: str, *args: Any, **more: Any) -> None:
        process = current_process()
        who = "" if process is None else process.name
        error = sys.exc_info()[1]
        problem = {} if error is None else {"exception": repr(error)}
        self._told(
            {"time": round(self._cluster.loop.time(), 6), "process": who, "event": event, "args": args} | more | problem
        )

    debug = info = warning = error = exception = critical = _drop
