"""Default values of fields are those that a kube-apiserver showed (vectors/apiserver/field_defaults.jsonl)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.field_defaults import compared, manifests
from tests.support.tables import table

from moorage.apiserver.rules.field_defaults import in_stored_form, with_field_defaults
from moorage.decide.kubernetes.pod_defaults import admit_pod

Document = dict[str, Any]

LINES = (Path(__file__).parent / "vectors" / "apiserver" / "field_defaults.jsonl").read_text().splitlines()
PAIRS = [(line["sent"], line["shown"]) for line in map(json.loads, LINES)]


def stored(sent: Document) -> Document:
    return admit_pod(sent) if sent["kind"] == "Pod" else sent


def test_every_manifest_is_recorded() -> None:
    assert [sent for sent, _ in PAIRS] == list(manifests())


@table(("sent", "shown"), PAIRS)
def test_what_is_left_out_has_the_values_of_a_kube_apiserver(sent: Document, shown: Document) -> None:
    assert compared(with_field_defaults(stored(sent))) == shown


@table("sent", [sent for sent, _ in PAIRS])
def test_an_object_that_is_read_and_written_back_is_stored_as_before(sent: Document) -> None:
    kept = stored(sent)
    shown = with_field_defaults(kept)

    assert with_field_defaults(shown) == shown
    assert in_stored_form(shown, kept) == kept
