"""`moorage create`: create the objects of files, or one of a kind from its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from moorage.cli import completion
from moorage.cli.api import kinds, last_applied, manifests
from moorage.cli.api.client import object_path
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, CliError, UnreachableError, UsageError, warn
from moorage.cli.render import output, printing
from moorage.core.apimachinery.durations import seconds_of

app = typer.Typer(invoke_without_command=True, help="Create the objects of files, or one of a kind from its options.")

_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_Image = Annotated[list[str], typer.Option("--image", help="Image of a container. Repeatable.", show_default=False)]
_Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND ARGUMENT…]", show_default=False)]
_Literals = Annotated[
    list[str] | None, typer.Option("--from-literal", help="KEY=VALUE. Repeatable.", show_default=False)
]
_Role = Annotated[str, typer.Option("--role", help="The role that is bound.", show_default=False)]
_ClusterRole = Annotated[str, typer.Option("--clusterrole", help="The cluster role that is bound.", show_default=False)]
_Users = Annotated[list[str] | None, typer.Option("--user", help="A user. Repeatable.", show_default=False)]
_Groups = Annotated[list[str] | None, typer.Option("--group", help="A group. Repeatable.", show_default=False)]
_Accounts = Annotated[
    list[str] | None,
    typer.Option("--serviceaccount", help="NAMESPACE:NAME of a service account. Repeatable.", show_default=False),
]
_Verbs = Annotated[list[str], typer.Option("--verb", help="A verb, such as get. Repeatable.", show_default=False)]
_Resources = Annotated[
    list[str], typer.Option("--resource", help="A resource, such as pods. Repeatable.", show_default=False)
]
_SomeVerbs = Annotated[
    list[str] | None, typer.Option("--verb", help="A verb, such as get. Repeatable.", show_default=False)
]
_SomeResources = Annotated[
    list[str] | None, typer.Option("--resource", help="A resource, such as pods. Repeatable.", show_default=False)
]
_Urls = Annotated[
    list[str] | None,
    typer.Option("--non-resource-url", help="A path that is not of objects. Repeatable.", show_default=False),
]
_Names = Annotated[
    list[str] | None,
    typer.Option("--resource-name", help="Only objects of these names. Repeatable.", show_default=False),
]


@app.callback()
def create(
    ctx: typer.Context,
    *,
    files: options.Files = None,
    kustomize: options.Kustomize = "",
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    save_config: Annotated[
        bool, typer.Option("--save-config", help="Note the object in its annotation, as `apply` does.")
    ] = False,
    dry_run: options.DryRun = options.NONE,
    field_manager: options.FieldManager = "",
    validate: options.Validate = options.STRICT,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create the objects of files, or one of a kind from its options."""
    if ctx.invoked_subcommand is not None:
        return
    writing = options.Writing(form, dry_run, field_manager, validate)
    good, refused = options.manifests_of(files, kustomize, recursive=recursive)
    failed = bool(refused)
    for refusal in refused:
        warn(str(refusal))
    with connect(ctx) as client:
        for item in good:
            if item.kind is None:
                continue
            place = item.namespace(namespace)
            document = last_applied.to_create(item, item.kind, place, noted=save_config)
            try:
                made = document
                if writing.sends:
                    made = client.create(item.kind, place, document, options=writing.parameters)
            except UnreachableError:
                raise
            except CliError as error:
                warn(f"error when creating {item.place}: {error}")
                failed = True
            else:
                writing.results.show(item.kind, str(made["metadata"].get("name") or ""), "created", made)
    if failed:
        raise typer.Exit(FAILED)


@app.command("namespace")
def namespace(
    ctx: typer.Context,
    name: _Name,
    *,
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a namespace."""
    _make(ctx, ("v1", "Namespace"), {"metadata": {"name": name}}, "", options.Writing(form, dry_run))


@app.command("serviceaccount")
@app.command("sa", hidden=True)
def serviceaccount(
    ctx: typer.Context,
    name: _Name,
    *,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a service account: the identity of a program."""
    _make(ctx, ("v1", "ServiceAccount"), {"metadata": {"name": name}}, namespace, options.Writing(form, dry_run))


@app.command("token")
def token(
    ctx: typer.Context,
    name: _Name,
    *,
    namespace: options.Namespace = "default",
    audiences: Annotated[
        list[str] | None, typer.Option("--audience", help="For whom it counts. Repeatable.", show_default=False)
    ] = None,
    duration: Annotated[
        str, typer.Option(help="For how long it counts, such as 24h. At least 10m.", show_default=False)
    ] = "",
    bound_kind: Annotated[
        str, typer.Option("--bound-object-kind", help="Pod, Secret or Node.", show_default=False)
    ] = "",
    bound_name: Annotated[
        str, typer.Option("--bound-object-name", help="What the token ends with.", show_default=False)
    ] = "",
    bound_uid: Annotated[str, typer.Option("--bound-object-uid", help="Its uid.", show_default=False)] = "",
    form: options.FormOption = printing.TABLE,
) -> None:
    """Give out a token of a service account, and print it."""
    spec: dict[str, Any] = {"audiences": audiences} if audiences else {}
    if duration:
        seconds = seconds_of(duration)
        if seconds is None or seconds != int(seconds):
            raise UsageError(
                f"--duration: invalid value {duration!r}: must be whole seconds, such as 600s, 24h or 1h30m"
            )
        spec["expirationSeconds"] = int(seconds)
    if bool(bound_kind) is not bool(bound_name):
        raise UsageError("--bound-object-kind and --bound-object-name must be given together")
    if bound_kind:
        bound = {"kind": bound_kind, "apiVersion": "v1", "name": bound_name, "uid": bound_uid}
        spec["boundObjectRef"] = {key: value for key, value in bound.items() if value}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = object_path(kinds.find("serviceaccount"), namespace, name, "token")
    with connect(ctx) as client:
        found = client.post(path, request)
    if form.is_table:
        output.line(str((found.get("status") or {}).get("token") or ""))
    else:
        output.write(printing.renderer(form)(found))


@app.command("configmap")
def configmap(
    ctx: typer.Context,
    name: _Name,
    *,
    literals: _Literals = None,
    from_files: Annotated[
        list[str] | None,
        typer.Option(
            "--from-file", help="[KEY=]FILE. Repeatable.", show_default=False, autocompletion=completion.files
        ),
    ] = None,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a config map from values and files."""
    data = dict(_pair(text, "--from-literal") for text in literals or [])
    for text in from_files or []:
        key, equals, path = text.partition("=")
        file = Path(path if equals else key)
        data[key if equals else file.name] = manifests.read_file(file)
    body = {"metadata": {"name": name}, **({"data": data} if data else {})}
    _make(ctx, ("v1", "ConfigMap"), body, namespace, options.Writing(form, dry_run))


@app.command("deployment")
def deployment(
    ctx: typer.Context,
    name: _Name,
    command: _Command = None,
    *,
    images: _Image,
    replicas: Annotated[int, typer.Option("-r", "--replicas", help="How many pods.", min=0)] = 1,
    port: Annotated[int, typer.Option(help="The port of the container.", show_default=False)] = -1,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a deployment of an image."""
    labels = {"app": name}
    containers = [_container(_short(image), image, command) for image in images]
    if port >= 0:
        containers[0]["ports"] = [{"containerPort": port}]
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    _make(ctx, ("apps/v1", "Deployment"), body, namespace, options.Writing(form, dry_run))


@app.command("job")
def job(
    ctx: typer.Context,
    name: _Name,
    command: _Command = None,
    *,
    image: Annotated[str, typer.Option(help="Image of the container.", show_default=False)],
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a job of an image."""
    pod = {"containers": [_container(name, image, command)], "restartPolicy": "Never"}
    body = {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}}
    _make(ctx, ("batch/v1", "Job"), body, namespace, options.Writing(form, dry_run))


@app.command("poddisruptionbudget")
@app.command("pdb", hidden=True)
def pod_disruption_budget(
    ctx: typer.Context,
    name: _Name,
    *,
    selector: Annotated[str, typer.Option(help="Labels of the pods, such as app=web.", show_default=False)],
    minimum: Annotated[
        str, typer.Option("--min-available", help="How many must be left: a number or 50%.", show_default=False)
    ] = "",
    maximum: Annotated[
        str, typer.Option("--max-unavailable", help="How many may be away: a number or 50%.", show_default=False)
    ] = "",
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a pod disruption budget."""
    if bool(minimum) == bool(maximum):
        raise UsageError("exactly one of --min-available and --max-unavailable must be specified")
    labels = dict(_pair(text, "--selector") for text in selector.split(","))
    amount = minimum or maximum
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}}
    spec["minAvailable" if minimum else "maxUnavailable"] = int(amount) if amount.isdigit() else amount
    body = {"metadata": {"name": name}, "spec": spec}
    _make(ctx, ("policy/v1", "PodDisruptionBudget"), body, namespace, options.Writing(form, dry_run))


@app.command("role")
def role(
    ctx: typer.Context,
    name: _Name,
    *,
    verbs: _Verbs,
    resources: _Resources,
    names: _Names = None,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a role with one rule."""
    body = {"metadata": {"name": name}, "rules": _rules(verbs, resources, names or [])}
    _make(ctx, ("rbac.authorization.k8s.io/v1", "Role"), body, namespace, options.Writing(form, dry_run))


@app.command("clusterrole")
def cluster_role(
    ctx: typer.Context,
    name: _Name,
    *,
    verbs: _SomeVerbs = None,
    resources: _SomeResources = None,
    names: _Names = None,
    urls: _Urls = None,
    aggregation: Annotated[
        str,
        typer.Option("--aggregation-rule", help="Labels of the roles that it has the rules of.", show_default=False),
    ] = "",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create a cluster role, of one rule or of other roles."""
    body: dict[str, Any] = {"metadata": {"name": name}}
    if aggregation:
        if verbs or resources or names or urls:
            raise UsageError("aggregation rule must be specified without nonResourceURLs, resources or verbs")
        labels = dict(_pair(text, "--aggregation-rule") for text in aggregation.split(","))
        body |= {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]}, "rules": []}
    elif not verbs:
        raise UsageError("at least one verb must be specified")
    elif not resources and not urls:
        raise UsageError("one of resource or nonResourceURL must be specified")
    else:
        every = [part for verb in verbs for part in verb.split(",")]
        paths = [part for url in urls or () for part in url.split(",")]
        of_paths = [{"nonResourceURLs": paths, "verbs": every}] if paths else []
        body["rules"] = [*_rules(verbs, resources or [], names or []), *of_paths]
    _make(ctx, ("rbac.authorization.k8s.io/v1", "ClusterRole"), body, "", options.Writing(form, dry_run))


@app.command("rolebinding")
def role_binding(
    ctx: typer.Context,
    name: _Name,
    *,
    role_name: _Role = "",
    cluster_role_name: _ClusterRole = "",
    users: _Users = None,
    groups: _Groups = None,
    accounts: _Accounts = None,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Bind a role to users, groups or service accounts in a namespace."""
    if bool(role_name) == bool(cluster_role_name):
        raise UsageError("exactly one of clusterrole or role must be specified")
    kind = "Role" if role_name else "ClusterRole"
    body = _binding(name, kind, role_name or cluster_role_name, _subjects(users, groups, accounts))
    _make(ctx, ("rbac.authorization.k8s.io/v1", "RoleBinding"), body, namespace, options.Writing(form, dry_run))


@app.command("clusterrolebinding")
def cluster_role_binding(
    ctx: typer.Context,
    name: _Name,
    *,
    cluster_role_name: _ClusterRole,
    users: _Users = None,
    groups: _Groups = None,
    accounts: _Accounts = None,
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Bind a cluster role to users, groups or service accounts."""
    body = _binding(name, "ClusterRole", cluster_role_name, _subjects(users, groups, accounts))
    _make(ctx, ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), body, "", options.Writing(form, dry_run))


def _make(
    ctx: typer.Context, what: tuple[str, str], body: Mapping[str, Any], namespace: str, writing: options.Writing
) -> None:
    """Create an object.

    Args:
        ctx: the context of the command.
        what: its apiVersion and kind.
        body: the rest of it.
        namespace: its namespace, if its kind has one.
        writing: how.
    """
    api_version, kind_name = what
    kind = kinds.of_object(api_version, kind_name)
    if kind is None:
        raise CliError(f'no matches for kind "{kind_name}" in version "{api_version}"')
    place = {"namespace": namespace} if kind.namespaced else {}
    document = {"apiVersion": api_version, "kind": kind_name, **body, "metadata": {**body["metadata"], **place}}
    if writing.sends:
        with connect(ctx) as client:
            document = client.create(kind, namespace, document, options=writing.parameters)
    writing.results.show(kind, str(body["metadata"]["name"]), "created", document)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"invalid {option} value {text!r}, expected key=value")
    return key, value


def _short(image: str) -> str:
    """Return the name of an image without its registry and its tag."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _container(name: str, image: str, command: list[str] | None) -> dict[str, Any]:
    return {"name": name, "image": image, **({"command": list(command)} if command else {})}


def _rules(verbs: list[str], resources: list[str], names: list[str]) -> list[dict[str, Any]]:
    """Return a rule for the resources of each API group."""
    groups: dict[str, list[str]] = {}
    for text in (part for resource in resources for part in resource.split(",")):
        word, slash, subresource = text.partition("/")
        kind = kinds.find(word)
        groups.setdefault(kind.group, []).append(kind.plural + slash + subresource)
    every = [part for verb in verbs for part in verb.split(",")]
    named = {"resourceNames": names} if names else {}
    return [{"apiGroups": [group], "resources": found, **named, "verbs": every} for group, found in groups.items()]


def _subjects(users: list[str] | None, groups: list[str] | None, accounts: list[str] | None) -> list[dict[str, str]]:
    api = "rbac.authorization.k8s.io"
    found = [{"kind": "User", "apiGroup": api, "name": name} for name in users or []]
    found += [{"kind": "Group", "apiGroup": api, "name": name} for name in groups or []]
    for text in accounts or []:
        place, colon, name = text.partition(":")
        if not colon or not name:
            raise UsageError("serviceaccount must be <namespace>:<name>")
        found.append({"kind": "ServiceAccount", "namespace": place, "name": name})
    return found


def _binding(name: str, kind: str, role_name: str, subjects: list[dict[str, str]]) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
