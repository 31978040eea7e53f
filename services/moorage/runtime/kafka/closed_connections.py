"""Makes aiokafka notice on uvloop, too, that a connection is closed.

asyncio drops what is written to a closed transport; uvloop raises `RuntimeError`, for which aiokafka 0.14 is not
prepared (its issue 1038). When that hits the task which keeps a client's metadata, the task ends, nobody is told, and
from then on whatever waits for metadata waits for ever: one connection that is reset at the wrong moment, and a
consumer, or the client that asks for offsets, stands still until its process is ended.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError

_SENDING = ("send", "_send_sasl_token")


def mind_closed_connections() -> None:
    """Let a write to a closed connection close it for aiokafka, and raise what a broken one raises.

    It changes aiokafka's class, for aiokafka makes its connections itself; once is enough.
    """
    for name in _SENDING:
        send = getattr(AIOKafkaConnection, name)
        if not hasattr(send, "__wrapped__"):
            setattr(AIOKafkaConnection, name, _minding(send))


def _minding(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def sending(self: AIOKafkaConnection, *args: Any, **kwargs: Any) -> Any:
        try:
            return send(self, *args, **kwargs)
        except KafkaError:  # which is a RuntimeError
            raise
        except RuntimeError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error

    return sending
