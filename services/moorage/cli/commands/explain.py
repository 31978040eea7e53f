"""`moorage explain`: the placement of a workload or the state of a target, and the events that led to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli import completion, errors
from moorage.cli.api import endpoints, kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect
from moorage.cli.errors import CliError, ServerError, UnreachableError, UsageError
from moorage.cli.render import explain as explain_text
from moorage.cli.render import output
from moorage.cli.render.durations import to_the_second
from moorage.cli.render.output import DocumentFormat
from moorage.decide.kubernetes.object_texts import taint_text
from moorage.insight.explain.question import EXPLAINED, WITHOUT_NAMESPACE, Question, QuestionError

_BAD_REQUEST, _NOT_FOUND = 400, 404
_LATER = frozenset({502, 503, 504})
"""Status codes that mean that no query worker can answer now."""


def explain(
    ctx: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND [NAMESPACE/]NAME | KIND[.FIELD…]",
            help="A pod, placement, rollout, resourcebinding or clusterresourcebinding; an object that makes pods or "
            "is placed by a policy, such as a deployment; or a node or cluster. A kind alone, or a field of it, "
            "explains its structure.",
            show_default=False,
            autocompletion=completion.explained,
        ),
    ],
    *,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the object.", autocompletion=completion.namespaces)
    ] = "default",
    node: Annotated[
        str,
        typer.Option(
            help="Show only this node, with the result of every filter and prioritizer.",
            autocompletion=completion.nodes,
        ),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(
            help="Show only this cluster, with the result of every filter and prioritizer.",
            autocompletion=completion.clusters,
        ),
    ] = "",
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Show all nodes or clusters, not only the chosen and the best. For a target: all evictions."
        ),
    ] = False,
    form: Annotated[DocumentFormat, typer.Option("-o", "--output", help="table, json or yaml.")] = DocumentFormat.TABLE,
    from_topics: Annotated[bool, typer.Option("--from-topics", help="Read the topics instead of the gateway.")] = False,
    recursive: Annotated[bool, typer.Option("--recursive", help="For a kind: show the fields of its fields.")] = False,
) -> None:
    """Explain the placement of a workload, or the state of a target.

    For a node or cluster, the command shows its conditions with their sources, its taints with their origins, the held
    taints, and the evictions from it, with the events behind them.

    With a kind alone or a field of it, such as `moorage explain pods.spec.tolerations`, the command shows their fields,
    as `kubectl explain` does.
    """
    if len(what) == 1 and "/" not in what[0] and (found := structure_of(what[0])):
        output.write("".join(f"{line}\n" for line in _structure(*found, recursive=recursive)))
        return
    if node and cluster:
        raise UsageError("--node and --cluster cannot be used together: a workload is placed on nodes or on clusters")
    if every and (node or cluster):
        raise UsageError("--all cannot be used together with --node or --cluster")
    asked = parse(what, namespace, node=node, cluster=cluster, every=every, within=chosen_cluster(ctx))
    told = _from_topics(asked) if from_topics else _told(ctx, asked)
    if form is DocumentFormat.TABLE:
        lines = explain_text.lines(told, every=every, closely=bool(node or cluster))
        output.write("".join(f"{line}\n" for line in lines))
    else:
        output.write(output.document(told, form))


def structure_of(word: str) -> tuple[ServedKind, list[str]] | None:
    """Return the kind and the path of `pods.spec.tolerations`. None if its first part is not a kind.

    A kind may have its group behind it (`deployments.apps.spec`): the longest part that is a kind counts.
    """
    parts = word.split(".")
    for end in range(len(parts), 0, -1):
        try:
            return kinds.find(".".join(parts[:end])), parts[end:]
        except CliError:
            continue
    return None


def _structure(kind: ServedKind, path: list[str], *, recursive: bool) -> Iterator[str]:
    from moorage.apiserver.machinery.openapi.registry import schema_of  # noqa: PLC0415 - as above

    return explain_text.structure_lines(kind, schema_of(kind.group, kind.version, kind.kind), path, recursive=recursive)


def parse(
    words: list[str], namespace: str, *, node: str = "", cluster: str = "", every: bool = False, within: str = ""
) -> Question:
    """Return the question about the object that the words name.

    They are `KIND NAME`, `KIND NAMESPACE/NAME`, `KIND/NAME` or `KIND/NAMESPACE/NAME`.

    Raises:
        UsageError: they name none, or several.
        CliError: the kind is not known.
    """
    kind_word, slash, rest = words[0].partition("/")
    names = words[1:] if not slash else [rest, *words[1:]]
    if len(names) != 1 or not names[0]:
        raise UsageError(f"explain needs one object, KIND [NAMESPACE/]NAME, but got {' '.join(words)!r}")
    place, slash, name = names[0].rpartition("/")
    if slash and (not place or not name or "/" in place):
        raise UsageError(f"name: invalid value {names[0]!r}: must be NAME or NAMESPACE/NAME")
    kind = kinds.find(kind_word).kind
    if kind not in EXPLAINED:
        known = ", ".join(one.lower() for one in EXPLAINED)
        raise UsageError(f"kind: invalid value {kind_word!r}: must be one of {known}")
    if kind in WITHOUT_NAMESPACE and slash:
        raise UsageError(f"name: invalid value {names[0]!r}: must be NAME, because a {kind} has no namespace")
    where = "" if kind in WITHOUT_NAMESPACE else place if slash else namespace
    try:
        return Question(kind, where, name, node, cluster, every, within)
    except QuestionError as error:
        if error.field == "within":
            raise UsageError(f"--fleet-cluster: invalid value {error.value!r}: {error.rule}") from None
        raise UsageError(str(error)) from None


def _told(ctx: typer.Context, asked: Question) -> JsonObject:
    """Return the explanation of the query worker behind the gateway. Without one, explain from the topics."""
    given = {"namespace": asked.namespace, "node": asked.node, "cluster": asked.cluster}
    fields = {"kind": asked.kind, "name": asked.name} | {name: value for name, value in given.items() if value}
    fields |= {"all": "true"} if asked.every else {}
    try:
        with connect(ctx) as client:
            return _answer(client, asked, fields)
    except UnreachableError as error:
        why = f"the gateway at {error.server} does not answer ({error.why})"
    except ServerError as error:
        if error.status == _BAD_REQUEST and (causes := error.details.get("causes")):
            raise UsageError(f"--{causes[0]['field']}: {causes[0]['message']}") from None
        if error.status == _NOT_FOUND and not error.details:
            why = "the gateway is an older version that cannot explain"
        elif error.status in _LATER:
            why = error.message
        else:
            raise
    errors.warn(f"{why}; reading the topics instead, which takes longer")
    return _from_topics(asked)


def _answer(client: Client, asked: Question, fields: dict[str, str]) -> JsonObject:
    """Return the gateway's explanation."""
    try:
        return client.explain(fields)
    except ServerError as error:
        if error.status == _NOT_FOUND and error.details.get("kind") == "pods" and (left := _left(client, asked)):
            raise CliError(f"{error}\n{left}", prefix="") from None
        raise


def _left(client: Client, asked: Question) -> str:
    """Return how a pod that no longer exists left its node. Empty if no eviction of it is known."""
    pod = {"kind": asked.kind, "namespace": asked.namespace, "name": asked.name}
    listed = client.list(kinds.find("evictions"), asked.namespace).get("items") or []
    decided = (one["status"] for one in listed)
    over = [one for one in decided if one.get("workload") == pod and one.get("state") == "Completed"]
    if not over:
        return ""
    last = max(over, key=lambda one: str(one.get("decidedTime")))
    found = [f"taint {taint_text(taint)}" for taint in last.get("taints") or []]
    found += [f"the request of {one['kind']}/{one['name']}" for one in last.get("requesters") or []]
    causes = ", ".join(found)
    why = f", because of {causes}" if causes else ""
    target = last["target"]
    when = to_the_second(str(last.get("decidedTime")))
    return f"It was last evicted from {target['kind'].lower()}/{target['name']} at {when}{why}."


def _from_topics(asked: Question) -> JsonObject:
    """Return the explanation that this process makes from the topics."""
    from moorage.cli.api import topics  # noqa: PLC0415 - few calls need it, and it loads half of the services
    from moorage.insight.explain.answer import explain_from_topics  # noqa: PLC0415 - as above
    from moorage.insight.explain.document import document_of  # noqa: PLC0415 - as above
    from moorage.insight.explain.explanation import NotFoundError  # noqa: PLC0415 - as above

    settings = endpoints.live_settings()
    try:
        return document_of(topics.run(settings, explain_from_topics(settings, asked)))
    except NotFoundError as error:
        raise ServerError(status=404, reason="NotFound", message=str(error)) from None
    except QuestionError as error:
        raise UsageError(f"--{error.field}: {error.rule}") from None
