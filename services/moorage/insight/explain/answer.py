"""Finds the explanation that answers a question, also from the topics themselves, where nothing is changed."""

from __future__ import annotations

from moorage.apiserver.kinds.kind import declared
from moorage.insight.copy.snapshot import Snapshot
from moorage.insight.explain.binding_reasons import binding_of, explain_binding
from moorage.insight.explain.explanation import Explanation, NotFoundError, Row, Summary, Wanted, eviction_ends
from moorage.insight.explain.grounds import TOPICS, Grounds, SnapshotGrounds, declared_as, evictions_of
from moorage.insight.explain.history import TopicScan, complete
from moorage.insight.explain.placement_reasons import explain_placement
from moorage.insight.explain.pod_reasons import explain_pod
from moorage.insight.explain.question import PLACEMENT, PLACEMENT_DECISION, ROLLOUT, Question, QuestionError
from moorage.insight.explain.rollout_reasons import explain_rollout
from moorage.insight.explain.target_reasons import TargetExplanation, explain_target
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import resource_key
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, POD

_RESOURCES = {one.kind: f"{one.plural}.{one.group}" if one.group else one.plural for one in declared()}


def answer(grounds: Grounds, asked: Question) -> Explanation | Summary | TargetExplanation:
    """Answer a question.

    Raises:
        NotFoundError: there is no such object, node or cluster.
        QuestionError: a node is named for a workload that is placed on clusters, or a cluster for one on nodes.
    """
    if asked.is_about_target:
        return explain_target(
            grounds, asked.kind, asked.name, _RESOURCES[asked.kind], every=asked.every, cluster=asked.within
        )
    wanted = Wanted(asked.node or asked.cluster, asked.every)
    called = f"{asked.kind.lower()} {asked.name}"
    if asked.kind in {PLACEMENT, PLACEMENT_DECISION}:
        if asked.node:
            raise QuestionError("node", asked.node, f"{called} selects clusters, not nodes")
        name = asked.name.rpartition("-decision-")[0] if asked.kind == PLACEMENT_DECISION else asked.name
        return explain_placement(grounds, asked.namespace, name or asked.name, wanted)
    if asked.kind == ROLLOUT:
        return explain_rollout(grounds, asked.namespace, asked.name)
    key = resource_key(asked.kind, asked.namespace, asked.name, asked.within)
    binding = key if asked.kind in BINDING_KINDS else binding_of(grounds, key)
    if binding is not None:
        if asked.node:
            raise QuestionError("node", asked.node, f"{called} is placed on clusters, not on nodes")
        return explain_binding(grounds, binding, wanted)
    if asked.cluster:
        raise QuestionError("cluster", asked.cluster, f"no policy places {called} on clusters")
    if asked.kind == POD:
        return explain_pod(grounds, asked.namespace, asked.name, wanted, cluster=asked.within)
    told = summary_of(grounds, key, _RESOURCES[asked.kind])
    if asked.node:
        raise QuestionError("node", asked.node, f"{called} has pods; ask about one of them")
    return told


def summary_of(grounds: Grounds, owner: str, resource: str) -> Summary:
    """Return the decisions on the pods of a controller.

    Args:
        grounds: the present state.
        owner: the controller's key.
        resource: the plural of its kind, for the message.

    Raises:
        NotFoundError: it is not declared, and has no pods.
    """
    rows = []
    for key, event in sorted(_decisions_under(grounds, owner).items()):
        generations = {str(event.target): event.binding_generation} if event.target is not None else {}
        ends = [eviction_ends(one) for one, _ in evictions_of(grounds, key, generations)]
        rows.append(Row(key, event, ends[0] if ends else None))
    if not rows and declared_as(grounds, owner) is None:
        raise NotFoundError(resource, owner.rpartition("/")[2])
    return Summary(owner, grounds.taken, tuple(rows))


def _decisions_under(grounds: Grounds, owner: str) -> dict[str, WorkloadPlaced]:
    """Return the decisions on the pods of a controller, by workload.

    In a real cluster pods are mirrored, and are decided on by themselves. Whose they are follows from their owners
    there: a pod's is a ReplicaSet, and that of a ReplicaSet is a Deployment.
    """
    found, seen, left = dict(grounds.decisions_for(owner)), {owner}, [owner]
    while left:
        mirrored = set(grounds.mirrored_of(left.pop())) - seen
        seen |= mirrored
        left += mirrored
        for key in mirrored:
            found |= grounds.decisions_for(key)
    return found


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
