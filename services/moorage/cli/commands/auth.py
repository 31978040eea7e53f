"""`moorage auth`: who one is to the gateway, and what one may do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from moorage.cli.api import kinds
from moorage.cli.api.client import JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect_home
from moorage.cli.commands import options, reconcile_roles
from moorage.cli.errors import FAILED, CliError, UsageError, warn
from moorage.cli.render import output, printing

app = typer.Typer(no_args_is_help=True, help="Show who you are to the gateway, and what you may do.")

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RULES: Final = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_WORDS: Final = 2
_READING: Final = frozenset({"get", "list", "watch"})


@app.command("can-i")
def can_i(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="VERB KIND[/NAME] | VERB PATH", show_default=False)
    ] = None,
    *,
    namespace: options.Namespace = "default",
    all_namespaces: options.AllNamespaces = False,
    subresource: Annotated[str, typer.Option(help="Such as status or scale.", show_default=False)] = "",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Answer by the exit code alone.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List what you may do in the namespace.")] = False,
) -> None:
    """Say whether you may do something. The exit code is 1 if you may not.

    With --fleet-cluster it is asked about that cluster: whether you may get it, or update it to change something, and
    whether you may do the same in all namespaces of the home fleet.
    """
    cluster = chosen_cluster(ctx)
    if listing:
        if cluster:
            raise UsageError(
                f"--list cannot be used together with --fleet-cluster: what you may do in all namespaces you may do in "
                f"the cluster {cluster}, too, if you may get it, or update it"
            )
        _list(ctx, namespace)
        return
    if len(words or []) != _WORDS:
        raise UsageError("you must specify two arguments: verb resource or verb resource/resourceName")
    verb, target = words or ["", ""]
    specs = [_spec(verb, target, subresource, "" if all_namespaces or cluster else namespace)]
    if cluster:
        own = {"verb": "get" if verb in _READING else "update", "resource": "clusters", "group": "moorage.io"}
        specs.insert(0, {"resourceAttributes": {**own, "version": "v1alpha1", "name": cluster}})
    status = _reviewed(ctx, specs)
    allowed = bool(status.get("allowed"))
    if not quiet:
        reason = f" - {status['reason']}" if status.get("reason") and not allowed else ""
        output.line("yes" if allowed else f"no{reason}")
    if not allowed:
        raise typer.Exit(FAILED)


def _spec(verb: str, target: str, subresource: str, namespace: str) -> JsonObject:
    """What is asked of the gateway. Without a namespace it is asked about all."""
    if target.startswith("/"):
        return {"nonResourceAttributes": {"verb": verb, "path": target}}
    word, _, name = target.partition("/")
    found = {"verb": verb, "resource": word, "name": name, "subresource": subresource}
    if word != "*":
        try:
            kind = kinds.find(word)
        except CliError:
            warn(f"Warning: the server doesn't have a resource type '{word}'")
        else:
            found |= {"resource": kind.plural, "group": kind.group, "version": kind.version}
            if kind.namespaced:
                found["namespace"] = namespace
    return {"resourceAttributes": {key: value for key, value in found.items() if value}}


def _reviewed(ctx: typer.Context, specs: Iterable[JsonObject]) -> JsonObject:
    """The answer of the gateway to what is asked: to the first thing that is not allowed, or to the last one."""
    status: JsonObject = {}
    with connect_home(ctx) as client:
        for spec in specs:
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
            status = client.post(_REVIEWS, review, reading=True).get("status") or {}
            if not status.get("allowed"):
                break
    return status


def _list(ctx: typer.Context, namespace: str) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    with connect_home(ctx) as client:
        status = client.post(_RULES, review, reading=True).get("status") or {}
    rows = []
    for rule in status.get("resourceRules") or []:
        named, verbs = f"[{' '.join(rule.get('resourceNames') or [])}]", f"[{' '.join(rule['verbs'])}]"
        rows += [
            [f"{resource}.{group}" if group else resource, "[]", named, verbs]
            for resource in rule.get("resources") or []
            for group in rule.get("apiGroups") or [""]
        ]
    rows += [
        ["", f"[{' '.join(rule['nonResourceURLs'])}]", "[]", f"[{' '.join(rule['verbs'])}]"]
        for rule in status.get("nonResourceRules") or []
    ]
    output.write(output.table(["Resources", "Non-Resource URLs", "Resource Names", "Verbs"], rows))


app.command("reconcile")(reconcile_roles.reconcile)


@app.command("whoami")
def whoami(ctx: typer.Context, *, form: options.FormOption = printing.TABLE) -> None:
    """Show who you are to the gateway."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    with connect_home(ctx) as client:
        found = client.post(_SELF, review, reading=True)
    if not form.is_table:
        output.write(printing.renderer(form)(found))
        return
    user = (found.get("status") or {}).get("userInfo") or {}
    rows = [["Username", str(user.get("username", ""))]]
    if user.get("uid"):
        rows.append(["UID", str(user["uid"])])
    if user.get("groups"):
        rows.append(["Groups", f"[{' '.join(user['groups'])}]"])
    rows += [[f"Extra: {key}", f"[{' '.join(values)}]"] for key, values in (user.get("extra") or {}).items()]
    output.write(output.table(["ATTRIBUTE", "VALUE"], rows))
