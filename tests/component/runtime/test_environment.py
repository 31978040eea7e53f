"""Variables of the environment that look like Moorage's and are none."""

from __future__ import annotations

import os

import pytest

from moorage.runtime import environment
from moorage.runtime.environment import OTHERS, unknown, variable
from moorage.runtime.settings import Settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("MOORAGE_") or name == "KUBERNETES_SERVICE_HOST":
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MOORAGE_GATWAY_PORT", "MOORAGE_GATEWAY_PORT"),
        ("MOORAGE_BOOTSTRAP_SERVER", "MOORAGE_BOOTSTRAP_SERVERS"),
        ("MOORAGE_STATEDIR", "MOORAGE_STATE_DIR"),
        ("moorage_gatway_port", "MOORAGE_GATEWAY_PORT"),
        ("MOORAGE_QUUX", ""),
    ],
)
def test_what_is_misspelt_is_told_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    monkeypatch.setenv(name, "1")
    assert unknown() == {name: nearest}


def test_every_setting_is_known_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in Settings.model_fields:
        monkeypatch.setenv(variable(field), "x")
        monkeypatch.setenv(variable(field).lower(), "x")
    for name in OTHERS:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("XMOORAGE_A", "x")
    monkeypatch.setenv("_MOORAGE_COMPLETE", "x")
    assert unknown() == {}


def test_common_names_are_settings() -> None:
    assert set(Settings.model_fields) >= environment._COMMON


def test_links_to_services_in_kubernetes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    links = ("MOORAGE_SERVICE_HOST", "MOORAGE_PORT", "MOORAGE_WEB_PORT_80_TCP_ADDR", "MOORAGE_WEB_SERVICE_PORT_HTTP")
    for name in links:
        monkeypatch.setenv(name, "10.0.0.1")
    assert set(unknown()) == set(links)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert unknown() == {}
