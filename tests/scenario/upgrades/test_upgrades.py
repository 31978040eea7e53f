"""This version reads what earlier versions have written, and decides what they would have decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenario.upgrades.states import FOLDER, expected, follows
from tests.support import backups

from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import EVICTIONS

STATES = sorted(FOLDER.glob("*.yaml.gz"))


def known(recorded: Any, now: Any) -> Any:
    """What a value has now of the fields that were recorded. A later version may have more."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return {name: known(value, now.get(name)) for name, value in recorded.items()}
    return now


def test_there_is_a_state() -> None:
    assert STATES


@pytest.mark.parametrize("state", STATES, ids=[path.name.removesuffix(".yaml.gz") for path in STATES])
def test_what_follows_from_a_state_is_the_same(state: Path) -> None:
    checked, records = backups.read(state)
    held = [one for one in records if one.topic is EVICTIONS and one.value and EvictionState.HELD.encode() in one.value]
    assert held, "the state is one in which something is to be decided"
    recorded, now = expected(state), follows(state, checked.begin.partitions)
    assert now.keys() == recorded.keys()
    assert {place: known(value, now[place]) for place, value in recorded.items()} == recorded
