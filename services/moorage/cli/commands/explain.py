"""`moorage explain`: why a workload is where it is, why not elsewhere, until when, and what led to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, TypeVar

import typer
from aiokafka.errors import KafkaError

from moorage.cli import completion
from moorage.cli.api import endpoints, kinds
from moorage.cli.api.topics import quiet, unreachable
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import explain as explain_text
from moorage.cli.render import explain_json, output
from moorage.runtime.settings import Settings
from moorage.simulation.copy.snapshot import Snapshot, SnapshotError
from moorage.simulation.explain.chain import Trail
from moorage.simulation.explain.explanation import (
    Explanation,
    Grounds,
    NotFoundError,
    Summary,
    Wanted,
    retraced,
    summary_of,
)
from moorage.simulation.explain.history import load_history
from moorage.simulation.explain.karmada import binding_of, explain_binding
from moorage.simulation.explain.ocm import explain_placement
from moorage.simulation.explain.pods import explain_pod
from moorage.workers.placement.karmada.resource import CLAIMED_KINDS
from moorage.workers.placement.ocm.decision import PLACEMENT_DECISION
from moorage.workers.placement.ocm.spec import PLACEMENT
from moorage.workers.placement.service import PlacementService
from moorage_schemas.resource import resource_key
from moorage_schemas.topics import PLACEMENTS

BINDING: Final = "ResourceBinding"
POD: Final = "Pod"

EXPLAINED: Final = (PLACEMENT, PLACEMENT_DECISION, BINDING, *CLAIMED_KINDS)
"""Kinds that can be explained; a PlacementDecision is, as its placement."""

T = TypeVar("T")


class ExplainFormat(StrEnum):
    """How an explanation is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Asked:
    """What an explanation is asked for."""

    kind: str
    resource: str
    """The plural, as messages name it."""

    namespace: str
    name: str


def explain(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND [NAMESPACE/]NAME",
            help="pod, placement, resourcebinding, or what makes pods or is claimed by a policy: deployment, …",
            show_default=False,
            autocompletion=completion.objects,
        ),
    ],
    *,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Where the object is.", autocompletion=completion.namespaces)
    ] = "default",
    node: Annotated[
        str,
        typer.Option(help="One node: every filter's and prioritizer's verdict on it.", autocompletion=completion.nodes),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(
            help="One cluster: every filter's and prioritizer's verdict on it.", autocompletion=completion.clusters
        ),
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="All nodes or clusters, not the chosen and the best.")] = False,
    form: Annotated[
        ExplainFormat, typer.Option("-o", "--output", help="table for people, json or yaml.")
    ] = ExplainFormat.TABLE,
) -> None:
    """Tell why a workload is where it is, or is not, and until when."""
    asked = parse(what, namespace)
    if node and cluster:
        raise UsageError("--node and --cluster cannot be used together: a workload has nodes or clusters, not both")
    if every and (node or cluster):
        raise UsageError("--all cannot be used together with --node or --cluster")
    bootstrap, prefix = endpoints.kafka()
    settings = endpoints.load_settings(
        endpoints.of_the_live(bootstrap), bootstrap_servers=bootstrap, topic_prefix=prefix
    )
    told = asyncio.run(
        _answered(_told(settings, asked, Wanted(node or cluster, every), node=node, cluster=cluster), bootstrap)
    )
    if form is ExplainFormat.TABLE:
        lines = (
            explain_text.summary(told, every=every)
            if isinstance(told, Summary)
            else explain_text.explanation(told, closely=bool(node or cluster))
        )
        output.write("".join(f"{line}\n" for line in lines))
        return
    document = explain_json.summary(told) if isinstance(told, Summary) else explain_json.explanation(told)
    output.write(output.to_yaml(document) if form is ExplainFormat.YAML else output.to_json(document))


def parse(words: list[str], namespace: str) -> Asked:
    """The one object that the words name: `KIND NAME`, `KIND NAMESPACE/NAME`, `KIND/NAME`, `KIND/NAMESPACE/NAME`.

    Raises:
        UsageError: they name none, or several.
        CliError: the kind is not known.
    """
    kind_word, slash, rest = words[0].partition("/")
    names = words[1:] if not slash else [rest, *words[1:]]
    if len(names) != 1 or not names[0]:
        raise UsageError(f"explain tells of one object, KIND [NAMESPACE/]NAME; given: {' '.join(words)!r}")
    place, slash, name = names[0].rpartition("/")
    if slash and (not place or not name or "/" in place):
        raise UsageError(f"name: invalid value {names[0]!r}: must be NAME or NAMESPACE/NAME")
    kind = kinds.find(kind_word)
    if kind.kind not in EXPLAINED:
        known = ", ".join(one.lower() for one in EXPLAINED)
        raise UsageError(f"kind: invalid value {kind_word!r}: explain tells of {known}")
    if kind.kind == PLACEMENT_DECISION:
        kind, name = kinds.find(PLACEMENT), name.rpartition("-decision-")[0] or name
    return Asked(kind.kind, kind.resource, place if slash else namespace, name)


async def _answered(work: Awaitable[T], bootstrap: str) -> T:
    """What comes of reading the topics.

    Raises:
        CliError: there is no such thing, or Kafka does not answer.
    """
    try:
        return await work
    except NotFoundError as error:
        raise CliError(str(error), prefix="Error from server (NotFound): ") from None
    except SnapshotError as error:
        raise CliError(
            f"Kafka at {bootstrap}: {error}.\n"
            "Make the topics with `moorage topics make`, or start everything with `moorage up`."
        ) from None
    except (KafkaError, TimeoutError, OSError) as error:
        raise unreachable(bootstrap, error) from None


async def _told(settings: Settings, asked: Asked, wanted: Wanted, *, node: str, cluster: str) -> Explanation | Summary:
    """The explanation, with as much of its chains as is still in the topics."""
    quiet()
    topics = dict.fromkeys((PLACEMENTS, *PlacementService.globals))
    snapshot = await Snapshot.load(settings, topics=topics)
    told = answer(Grounds(snapshot), asked, wanted, settings=settings, node=node, cluster=cluster)
    if isinstance(told, Explanation) and not all(chain.whole for chain in told.chains):
        history = await load_history(settings, snapshot.partitions, told.chains)
        retraced(told, Trail.of([*snapshot.all(), *history]))
    return told


def answer(
    grounds: Grounds, asked: Asked, wanted: Wanted, *, settings: Settings, node: str = "", cluster: str = ""
) -> Explanation | Summary:
    """What is told of what was asked for.

    Raises:
        NotFoundError: there is no such object, node or cluster.
        UsageError: nodes are asked for of what has clusters, or the other way round.
    """
    snapshot = grounds.snapshot
    now = snapshot.taken if snapshot.taken.tzinfo is not None else datetime.now(UTC)
    key = resource_key(asked.kind, asked.namespace, asked.name)
    if asked.kind == PLACEMENT:
        if node:
            raise UsageError(f"--node: placement {asked.name} selects clusters; use --cluster")
        return explain_placement(grounds, asked.namespace, asked.name, wanted, settings=settings, now=now)
    name: str | None = asked.name
    if asked.kind != BINDING:
        found = binding_of(snapshot, key)
        name = found.rpartition("/")[2] if found is not None else None
    if name is not None:
        if node:
            raise UsageError(f"--node: {asked.kind.lower()} {asked.name} is placed on clusters; use --cluster")
        return explain_binding(grounds, asked.namespace, name, wanted, settings=settings, now=now)
    if cluster:
        raise UsageError(f"--cluster: no policy places {asked.kind.lower()} {asked.name} on clusters; use --node")
    if asked.kind == POD:
        return explain_pod(grounds, asked.namespace, asked.name, wanted, settings=settings, now=now)
    told = summary_of(snapshot, key, asked.resource)
    if wanted.one:
        raise UsageError(f"--node: {asked.kind.lower()} {asked.name} has pods; explain one of them")
    return told
