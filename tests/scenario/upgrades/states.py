"""States that earlier versions have written, and what follows from them, so that an upgrade decides the same.

    python -m tests.scenario.upgrades.states record NAME    at a release: the state that this version writes
    python -m tests.scenario.upgrades.states renew          after decisions have changed on purpose: what follows now

A state is an export of `TroubledFleet`, with open deadlines, held evictions and nodes that wait for their zone. It is
never written again, because only the version of its name could write it. What follows is decided in fifteen minutes in
which nothing is reported: deadlines, silence and grants.
"""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from tests.support import backups
from tests.support.worlds.flow import Flow
from tests.support.worlds.troubled import SETTINGS, TroubledFleet, decisions, troubled
from tests.support.worlds.world import every_service

from moorage_schemas.times import format_time, parse_time

FOLDER = Path(__file__).parent / "recorded"
SECONDS = 900

Decided = dict[str, Any]
"""What was decided, as JSON: by time, topic, key and number."""


def follows(state: Path, partitions: int) -> Decided:
    """What this version decides after it has read a state."""
    checked, _ = backups.read(state)
    taken: datetime = parse_time(checked.begin.taken)
    flow = Flow([], partitions=partitions, start=taken)
    restored = backups.restore(state, every_service(SETTINGS), partitions=partitions, flow=flow)
    begin = restored.topics.written
    restored.advance(SECONDS)
    found: Decided = {}
    numbers: Counter[str] = Counter()
    for time, topic, key, value, _ in sorted(decisions(restored, begin).elements(), key=repr):
        place = f"{format_time(time)} {topic} {key}"
        found[f"{place} {numbers[place]}"] = None if value is None else orjson.loads(value)
        numbers[place] += 1
    return found


def expected(state: Path) -> Decided:
    """What was decided when the state was recorded, or when decisions were last renewed."""
    found: Decided = orjson.loads(gzip.decompress(_decisions_of(state).read_bytes()))
    return found


def _decisions_of(state: Path) -> Path:
    return state.with_name(state.name.replace(".yaml.gz", ".decisions.json.gz"))


def _write(path: Path, text: bytes) -> None:
    """Write a compressed file. The same text always gives the same bytes."""
    path.write_bytes(gzip.compress(text, mtime=0))


def _renew(state: Path) -> None:
    partitions = backups.read(state)[0].begin.partitions
    found = follows(state, partitions)
    _write(_decisions_of(state), orjson.dumps(found, option=orjson.OPT_SORT_KEYS))
    print(f"{state.name}: {len(found)} decisions")


def main(words: list[str]) -> int:
    """Record a state, or renew what follows from all of them."""
    match words:
        case ["record", name]:
            FOLDER.mkdir(exist_ok=True)
            state = FOLDER / f"{name}.yaml.gz"
            if state.exists():
                print(f"{state}: exists: expected the name of a version that has no state", file=sys.stderr)
                return 2
            fleet = TroubledFleet()
            troubled(fleet)
            plain = backups.export(fleet.flow, FOLDER / "unfinished.yaml")
            _write(state, plain.read_bytes())
            plain.unlink()
            _renew(state)
        case ["renew"]:
            for state in sorted(FOLDER.glob("*.yaml.gz")):
                _renew(state)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
