"""Definitions are whole for every thread that gets them, whoever builds them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from moorage.apiserver.machinery.openapi import definitions
from moorage.apiserver.machinery.schema import Schema

POD = "io.k8s.api.core.v1.Pod"


def test_no_thread_sees_a_definition_that_is_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_DEFINITIONS", {})
    fill, begun, go_on = definitions._fill, threading.Event(), threading.Event()

    def halting(made: Schema, said: Mapping[str, Any]) -> None:
        if not begun.is_set():
            begun.set()
            go_on.wait(60)
        fill(made, said)

    monkeypatch.setattr(definitions, "_fill", halting)
    found: list[Schema] = []
    first = threading.Thread(target=lambda: found.append(definitions.definition(POD)))
    first.start()
    assert begun.wait(60)
    assert POD not in definitions._DEFINITIONS
    second = threading.Thread(target=lambda: found.append(definitions.definition(POD)))
    second.start()
    go_on.set()
    first.join(60)
    second.join(60)
    assert found[0] is found[1]
    assert found[0].fields["spec"].schema.fields["containers"].schema.items is not None
    assert not definitions._BEING_BUILT


def test_a_definition_that_is_not_there_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "_DEFINITIONS", {})

    def broken(_: Schema, __: Mapping[str, Any]) -> None:
        raise LookupError("there is no definition of a part")

    with monkeypatch.context() as patched:
        patched.setattr(definitions, "_fill", broken)
        with pytest.raises(LookupError, match="of a part"):
            definitions.definition(POD)
    assert not definitions._BEING_BUILT
    assert definitions.definition(POD).fields["spec"].schema.fields
