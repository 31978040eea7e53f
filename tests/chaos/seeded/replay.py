"""Decides again on everything that was committed in a simulated run, and compares."""

from __future__ import annotations

from tests.chaos.seeded.kafka.cluster import Cluster, short_name

from moorage.insight.replay.comparison import Replayed, replay
from moorage.insight.replay.recording import RecordedRecord, Recording
from moorage.runtime.process.logs import silenced


def recorded(cluster: Cluster) -> Recording:
    """All that was ever readable, what compaction and retention have taken away since included."""
    return Recording.of(
        RecordedRecord(
            short_name(record.topic),
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for record in cluster.readable
    )


def replayed(cluster: Cluster) -> Replayed:
    """What comes of it."""
    with silenced():
        return replay(recorded(cluster))


def problems(found: Replayed, *, cleaned: bool = False) -> list[str]:
    """What a recording of everything must not show, a line each.

    Steps that a process took with it when it was killed are missing; nothing else is.

    Args:
        found: what came of the replay.
        cleaned: whether topics were compacted in the run. A standby that read after a record was compacted away, and
            not yet what replaced it, had a state that a recording of everything does not show.
    """
    unsure = {
        one.service
        for one in found.tallies
        if cleaned and any(reason.startswith("a standby had read ") for reason in one.reasons)
    }
    different = [
        f"replay: {one.service}/{one.partition}: {one.difference.why} (step {one.difference.step} of "
        f"{one.difference.run}): {one.difference.topic}/{one.difference.topic_partition}@{one.difference.offset} "
        f"{one.difference.recorded} {one.difference.made}"
        for one in found.tallies
        if one.difference is not None and one.service not in unsure
    ]
    gone = [
        f"replay: {one.service}/{one.partition}: {reason}"
        for one in found.tallies
        for reason in one.reasons
        if not reason.startswith("steps ") and one.service not in unsure
    ]
    incomplete = unsure | {one.service for one in found.tallies if one.missing or one.differing}
    left = [
        f"replay: {name}: {count} of its records were not compared"
        for name, count in found.uncompared.items()
        if name not in incomplete
    ]
    return [*different, *gone, *left]
