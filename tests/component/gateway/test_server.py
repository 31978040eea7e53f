"""The gateway's socket."""

from __future__ import annotations

import re
import socket

import pytest

from moorage.apiserver.server import listen


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"gateway_port: invalid value {port}: cannot listen on 127.0.0.1:{port}: Address already in use"
        with pytest.raises(OSError, match=re.escape(text)):
            listen("127.0.0.1", port)
