"""Decides on everything again that was committed in a simulated run, and compares."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from tests.seeded.kafka.cluster import Cluster, short_name

from moorage.replay.comparing import Replayed, replay
from moorage.replay.recording import Kept, Recording


def recorded(cluster: Cluster) -> Recording:
    """All that was ever readable, what compaction and retention have taken away since included."""
    return Recording.of(
        Kept(
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
    with quietly():
        return replay(recorded(cluster))


@contextmanager
def quietly() -> Iterator[None]:
    """Drop what the services log: they say the same as in the run."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def problems(found: Replayed) -> list[str]:
    """What a whole recording must not show."""
    return [
        (
            f"replay: {one.service}/{one.partition}: {one.difference.why} (step {one.difference.step} of "
            f"{one.difference.run}): {one.difference.topic}/{one.difference.topic_partition}@{one.difference.offset} "
            f"{one.difference.recorded} {one.difference.made}"
        )
        for one in found.tallies
        if one.difference is not None
    ]
