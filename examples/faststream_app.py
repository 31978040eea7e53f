"""A program of your own on FastStream: it lists the work that has to leave, and prepares machines for it.

faststream run examples.faststream_app:app
"""

from __future__ import annotations

from faststream import FastStream

from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.topics import EVICTIONS
from moorage_sdk.faststream import EventMeta, MoorageTopics, RecordKey, moorage_broker

broker = moorage_broker()
app = FastStream(broker)
topics = MoorageTopics(broker)

leaving: dict[str, EvictionDecided] = {}


@topics.subscriber(EVICTIONS, targets=["Node/*"])
async def on_eviction(eviction: EvictionDecided | None, key: RecordKey, meta: EventMeta) -> None:
    """Keep the table of evictions. A tombstone ends an entry."""
    if eviction is None:
        leaving.pop(key, None)
        return
    leaving[key] = eviction
    print(f"{eviction.workload} on {eviction.target}: {eviction.state}, because of {meta.correlation}")
