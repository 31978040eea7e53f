"""What a replay says of decisions after a standby took over, when what the standby had read is no longer there."""

from __future__ import annotations

from tests.chaos.seeded.replay import recorded
from tests.chaos.seeded.stories import Play, draw

from moorage.insight.replay.comparison import replay
from moorage.insight.replay.recording import Recording
from moorage.insight.replay.runs import runs_of
from moorage.runtime.process.logs import silenced

SEED = 78
"""A story in which a standby takes over, and decides otherwise if it has missed a state record (`standby-deaf`)."""


def handed_over(recording: Recording) -> list[tuple[str, int, int]]:
    """What standbys had read when they took over: topic, partition, and the offset below which they had read it."""
    found = []
    for run in runs_of(recording):
        if 0 not in run.entries:
            continue  # a process was killed before it had written its first steps
        topics = run.entries[0]["topics"]
        steps = [entry for entry in run.entries.values() if isinstance(entry, list)]
        partitions = {entry[1]: entry[2] for entry in steps if entry[0] == "o"}
        for entry in steps:
            if entry[0] == "s":
                for topic, end, _ in zip(*[iter(entry[2])] * 3, strict=True):
                    found.append((topics[topic], partitions[entry[1]], end))
    return found


def test_a_decision_that_may_rest_on_what_is_gone_is_missing_and_not_different() -> None:
    play = Play(draw(SEED))
    world = play.world()
    world.play(play)
    with silenced():
        recording = recorded(world.cluster)
        whole = replay(recording)
        assert whole.differing == 0
        assert not [reason for one in whole.tallies for reason in one.reasons if "standby" in reason]
        for topic, partition, end in handed_over(recording):
            if topic in {"evictions", "timers", "taints", "conditions", "placements"}:
                there = recording.places.get((topic, partition), {})
                for offset in [offset for offset in there if offset < end]:
                    del there[offset]
        found = replay(recording)
    assert found.differing == 0
    reasons = [reason for one in found.tallies for reason in one.reasons]
    assert [reason for reason in reasons if reason.startswith("a standby had read")]
