"""Ports that are given to processes that will listen there in a moment."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

from moorage.cli.local.stack import free_ports


def given_to_others(count: int) -> set[int]:
    """Return the ports that the system gives to other programs that take any."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for number, one in enumerate(sockets):
            if number % 2:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        return {int(one.getsockname()[1]) for one in sockets}


async def test_a_server_can_listen_on_a_port() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        server.close()
        await server.wait_closed()


if sys.platform == "linux":  # elsewhere ports are not reserved

    def test_a_port_is_given_to_nobody_else_meanwhile() -> None:
        ports = set(free_ports(100))
        for _ in range(20):
            assert not ports & given_to_others(400)
