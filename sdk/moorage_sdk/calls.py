"""Calls of handlers, async or not."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def call(handler: Callable[..., Any], *given: Any) -> Any:
    """Call a handler, and return its result.

    A handler that is not async runs in a thread, as FastStream runs them, so it may block.
    """
    if inspect.iscoroutinefunction(handler):
        return await handler(*given)
    found = await asyncio.to_thread(handler, *given)
    return await found if inspect.isawaitable(found) else found
