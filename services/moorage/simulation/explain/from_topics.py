"""An explanation from the topics themselves: they are read whole into a copy, and nothing is left behind."""

from __future__ import annotations

from moorage.runtime.settings import Settings
from moorage.simulation.copy.snapshot import Snapshot
from moorage.simulation.explain.answer import answer
from moorage.simulation.explain.explanation import Explanation, Summary
from moorage.simulation.explain.grounds import TOPICS, SnapshotGrounds
from moorage.simulation.explain.history import TopicScan, complete
from moorage.simulation.explain.question import Question


async def explain_from_topics(settings: Settings, asked: Question) -> Explanation | Summary:
    """Answer a question by what is in the topics now, with as much of the chains as is still there.

    Args:
        settings: where Kafka is, the topics' prefix, and what the services are set to.
        asked: the question.

    Raises:
        NotFoundError: there is no such object, node or cluster.
        QuestionError: nodes are asked for of what has clusters, or the other way round.
        SnapshotError: a topic is not there.
        KafkaError: Kafka does not answer, or an answer is an error.
        TimeoutError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """
    snapshot = await Snapshot.load(settings, topics=TOPICS)
    grounds = SnapshotGrounds(snapshot, settings)
    told = answer(grounds, asked)
    if isinstance(told, Explanation):
        async with TopicScan(settings) as older:
            await complete(told, grounds.records, older, snapshot.partitions)
    return told
