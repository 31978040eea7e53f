"""Environment variables that look like Moorage's but are unknown."""

from __future__ import annotations

import os

import pytest

from moorage.runtime.settings.environment import OTHERS, variable
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.unknown_variables import _COMMON, unknown_variables


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("MOORAGE_") or name == "KUBERNETES_SERVICE_HOST":
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MOORAGE_GATWAY_PORT", "MOORAGE_GATEWAY_PORT"),
        ("MOORAGE_GATWAY_PORTS", "MOORAGE_GATEWAY_PORT"),
        ("MOORAGE_" + "STATEDIR", "MOORAGE_STATE_DIR"),
        ("moorage_gatway_port", "MOORAGE_GATEWAY_PORT"),
        ("MOORAGE_" + "QUUX", ""),
    ],
)
def test_what_is_misspelt_is_told_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    monkeypatch.setenv(name, "1")
    assert unknown_variables() == {name: nearest}


def test_every_setting_is_known_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in Settings.model_fields:
        monkeypatch.setenv(variable(field), "x")
        monkeypatch.setenv(variable(field).lower(), "x")
    for name in OTHERS:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("X_MOORAGE", "x")
    monkeypatch.setenv("_MOORAGE_COMPLETE", "x")
    assert unknown_variables() == {}


def test_common_names_are_settings() -> None:
    assert set(Settings.model_fields) >= _COMMON


def test_links_to_services_in_kubernetes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    links = {f"MOORAGE_{name}" for name in ("SERVICE_HOST", "PORT", "WEB_PORT_80_TCP_ADDR", "WEB_SERVICE_PORT_HTTP")}
    for name in links:
        monkeypatch.setenv(name, "10.0.0.1")
    assert set(unknown_variables()) == links
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert unknown_variables() == {}
