"""The AsyncAPI documents of a probe and a deployer are those that FastStream makes of the SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.architecture.files import ROOT

from moorage.cli.commands.schemas import TYPES
from moorage.cli.contract.typescript import declarations
from moorage_sdk.specification import documents


@pytest.mark.parametrize("name", ["probe", "deployer"])
def test_the_committed_document_is_the_generated_one(name: str) -> None:
    committed = (ROOT / "sdk" / "generated" / f"{name}.json").read_text("utf-8")
    assert committed == documents()[name], "run `make schemas`"


def test_the_committed_types_of_typescript_are_the_generated_ones() -> None:
    assert (ROOT / TYPES).read_text("utf-8") == declarations(), "run `make schemas`"


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("probe", {"condition-reports": "send", "dead-letters": "receive"}),
        ("deployer", {"condition-reports": "send", "bindings": "receive", "evictions": "receive"}),
    ],
)
def test_the_document_names_what_is_read_and_written(name: str, operations: dict[str, str]) -> None:
    document: dict[str, Any] = json.loads(documents()[name])
    assert document["asyncapi"] == "3.0.0"
    assert {key: one["action"] for key, one in document["operations"].items()} == operations
    assert document["channels"]["condition-reports"]["address"] == "moorage.condition-reports.v1"
    assert "observedTime" in document["components"]["schemas"]["ConditionReported"]["properties"]
