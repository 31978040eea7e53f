"""Golden histories: recorded runs that must be reproduced byte for byte, so that changed decisions are noticed.

    python -m tests.scenario.replay.golden          makes them anew, after decisions have changed on purpose

Each is a seed of the simulation. They were chosen because most of the bugs in `tests.chaos.seeded.bugs` (79 of 110 when
they were first made; many of the others are not a service's) make one of them come out otherwise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.chaos.seeded.replay import recorded
from tests.chaos.seeded.stories import Play, draw

from moorage.insight.replay.recording import Recording

FOLDER = Path(__file__).parent / "golden"
SEEDS = (39, 81, 87, 149, 155, 226, 247, 275, 318, 391, 1693)


def made(seed: int) -> Recording:
    """The records that are committed in the run of a seed."""
    play = Play(draw(seed))
    world = play.world()
    world.play(play)
    return recorded(world.cluster)


def main() -> int:
    """Write every golden history."""
    for old in FOLDER.glob("*.jsonl.gz"):
        old.unlink()
    for seed in SEEDS:
        recording = made(seed)
        recording.save(FOLDER / f"seed-{seed}.jsonl.gz")
        print(f"seed {seed}: {recording.count} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
