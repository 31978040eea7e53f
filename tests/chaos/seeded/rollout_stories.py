"""Stories of rollouts, drawn from a seed: reports, new versions, clusters that come and go, crashes, repetitions."""

from __future__ import annotations

from random import Random

from tests.chaos.seeded.checker.invariants import check
from tests.chaos.seeded.checker.rollouts import (
    nobody_gets_a_version_too_early,
    nobody_loses_a_rollout_unasked,
    rollouts_reach_whom_they_may,
)
from tests.chaos.seeded.checker.violations import Violation
from tests.chaos.seeded.from_flow import history_of
from tests.scenario.flow.test_ocm_rollouts import RolloutWorld

from moorage_schemas.topics import RESOURCES

STEPS = 25
CLUSTERS = ("c1", "c2", "n1", "n2", "n3", "n4")


class Story:
    """What happens to one rollout."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - drawn to be repeated
        self.world = RolloutWorld(seed=seed).rollout()
        self.earlier = self.world.bound()
        self.number = 0
        self._tainted: set[str] = set()

    def _good(self) -> None:
        bound = sorted(self.world.bound())
        self.world.heard("True", *self.rng.sample(bound, self.rng.randint(0, len(bound))))

    def _bad(self) -> None:
        if bound := sorted(self.world.bound()):
            self.world.heard(self.rng.choice(("False", "Unknown")), self.rng.choice(bound))

    def _late(self) -> None:
        if self.earlier:
            self.world.heard("True", self.rng.choice(sorted(self.earlier)), of=self.earlier)

    def _wait(self) -> None:
        self.world.advance(self.rng.choice((1, 30, 59, 60, 300)))

    def _taint(self) -> None:
        name = self.rng.choice(CLUSTERS)
        (self.world.untaint if name in self._tainted else self.world.taint)(name)
        self._tainted ^= {name}
        self.world.run()

    def _version(self) -> None:
        self.earlier = self.world.bound()
        self.world.rollout(f"v{self.number}")

    def _again(self) -> None:
        self.world.delete("Rollout", "web")
        self.world.rollout(f"v{self.number}", uid=f"u{self.number}")

    def _crash(self) -> None:
        self.world.flow.crash_process(self.rng.choice(("placement", "condition-ingest")))
        self.world.run()

    def _repeat(self) -> None:
        flow = self.world.flow
        flow.redeliver("placement", RESOURCES, self.rng.randrange(flow.partitions), 3)
        self.world.run()

    def step(self) -> None:
        """Do one thing."""
        self.number += 1
        often = (self._good,) * 5 + (self._wait,) * 2
        rest = (self._bad, self._late, self._taint, self._version, self._crash, self._repeat)
        act = self.rng.choice(often + rest) if self.rng.random() > 1 / STEPS else self._again
        act()

    def end(self) -> None:
        """All clusters run well, for as long as it takes."""
        for _ in CLUSTERS:
            self.world.advance(60)
            self.world.heard("True", *sorted(self.world.bound()))
        self.world.advance(600)


def play(seed: int) -> list[Violation]:
    """Play the story of a seed. Return what it has broken."""
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
    story.end()
    promises = (nobody_gets_a_version_too_early, nobody_loses_a_rollout_unasked, rollouts_reach_whom_they_may)
    return check(history_of(story.world.flow), only=promises)
