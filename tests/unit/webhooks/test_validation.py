"""Validation of webhooks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.apiserver.rules.validation.moorage import validate_webhook
from moorage_schemas.resources.webhook import WebhookSpec

GOOD = {"url": "https://hooks.example.com/moorage", "secretFile": "ops.secret"}


def said(**fields: Any) -> list[str]:
    return [str(error) for error in validate_webhook(WebhookSpec.model_validate(GOOD | fields))]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": "http://127.0.0.1:8080/hook"},
        {"url": "http://localhost/hook"},
        {"url": "http://[::1]:1/"},
        {"url": "http://hooks.example.com", "allowInsecure": True},
        {"events": ["taints", "placements"], "targets": ["Node/*", "Cluster/eu-1"], "namespaces": ["shop"]},
        {"replay": {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}},
    ],
)
def test_valid(fields: dict[str, Any]) -> None:
    assert said(**fields) == []


@table(
    ("fields", "message"),
    [
        ({"url": ""}, "spec.url: Required value"),
        (
            {"url": "http://hooks.example.com"},
            "must be https, unless the host is loopback or spec.allowInsecure is true",
        ),
        ({"url": "ftp://hooks.example.com"}, "must be https://HOST/"),
        ({"url": "https:///hook"}, "must be https://HOST/"),
        ({"url": "https://a:70000/"}, "must be a URL: Port out of range"),
        ({"url": "https://a/#b"}, "must have no fragment"),
        ({"url": "https://a/ b"}, "printable ASCII characters without spaces"),
        ({"secretFile": ""}, "spec.secretFile: Required value"),
        ({"secretFile": "../token"}, 'spec.secretFile: Invalid value: "../token": must be the name of a file'),
        ({"secretFile": ".."}, "must be the name of a file"),
        ({"events": []}, "spec.events: Required value"),
        ({"events": ["taints", "taints"]}, 'spec.events[1]: Duplicate value: "taints"'),
        ({"targets": ["n1"]}, 'spec.targets[0]: Invalid value: "n1": must be a kind'),
        ({"targets": ["Pod/n1"]}, "must be a kind (Node, Cluster, ManagedCluster)"),
        (
            {"replay": {"since": "2026-01-03T00:00:00Z", "until": "2026-01-02T00:00:00Z"}},
            "spec.replay.since: Invalid value",
        ),
    ],
)
def test_invalid(fields: dict[str, Any], message: str) -> None:
    (error,) = said(**fields)
    assert message in error


def test_a_password_in_a_url_is_refused_without_being_shown() -> None:
    (error,) = said(url="https://user:hunter2@hooks.example.com")
    assert "must have no user or password" in error
    assert "hunter2" not in error
