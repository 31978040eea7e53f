"""Explanations from the topics, which are read into a copy. Nothing in Kafka is changed."""

from __future__ import annotations

from moorage.insight.copy.snapshot import Snapshot
from moorage.insight.explain.answer import answer
from moorage.insight.explain.explanation import Explanation, Summary
from moorage.insight.explain.grounds import TOPICS, SnapshotGrounds
from moorage.insight.explain.history import TopicScan, complete
from moorage.insight.explain.question import Question
from moorage.insight.explain.target_explanation import TargetExplanation
from moorage.runtime.settings.process_settings import Settings


async def explain_from_topics(settings: Settings, asked: Question) -> Explanation | Summary | TargetExplanation:
    """Answer a question from the present topics, with as much of the chains as still exists.

    Args:
        settings: the address of Kafka, the topics' prefix, and the settings of the services.
        asked: the question.

    Raises:
        NotFoundError: there is no such object, node or cluster.
        QuestionError: a node is named for a workload that is placed on clusters, or a cluster for one on nodes.
        SnapshotError: a topic does not exist.
        KafkaError: Kafka does not answer, or an answer is an error.
        TimeoutError: Kafka does not answer.
        OSError: Kafka cannot be reached.
    """
    snapshot = await Snapshot.load(settings, topics=TOPICS)
    grounds = SnapshotGrounds(snapshot, settings)
    told = answer(grounds, asked)
    if not isinstance(told, Summary):
        async with TopicScan(settings) as older:
            await complete(told, grounds.records, older, snapshot.partitions)
    return told
