"""Fixtures for the tests of the command line."""

from __future__ import annotations

import functools
from pathlib import Path

import httpx
import pytest
from tests.component.cli.fake_gateway import FakeGateway, Run, invoke

from moorage.cli.api.client import Client
from moorage.cli.commands.simulate_request import HttpxTransport


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGateway:
    """A gateway in memory that the command line uses, without Kafka."""
    fake = FakeGateway()
    transport = HttpxTransport(httpx.MockTransport(fake))
    monkeypatch.setattr("moorage.cli.api.endpoints.Client", functools.partial(Client, transport=transport))
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("MOORAGE_SERVER", "http://127.0.0.1:8080")
    monkeypatch.delenv("MOORAGE_BOOTSTRAP_SERVERS", raising=False)
    return fake


@pytest.fixture
def run(gateway: FakeGateway) -> Run:
    """Runs the command line with `gateway`."""
    assert gateway.requests == []
    return invoke
