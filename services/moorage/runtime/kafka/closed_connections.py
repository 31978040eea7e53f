"""Makes aiokafka notice closed connections on uvloop, too.

asyncio drops what is written to a closed transport. uvloop raises `RuntimeError`, which aiokafka 0.14 does not expect
(its issue 1038). When this happens in the task that keeps a client's metadata up to date, the task ends without notice.
From then on, everything that waits for metadata waits forever. So one connection that is reset at the wrong moment
stops a consumer, or the client that requests offsets, until its process ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError

_SENDING = ("send", "_send_sasl_token")


def mind_closed_connections() -> None:
    """Make a write to a closed connection raise aiokafka's error of a broken connection, and close the connection.

    This changes aiokafka's class, because aiokafka creates its connections itself. Further calls change nothing.
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
        except KafkaError:  # KafkaError is a RuntimeError
            raise
        except RuntimeError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error

    return sending
