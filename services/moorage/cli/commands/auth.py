"""`moorage auth` and `moorage identities`: your identity and permissions, and the identities of a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.namespace import KIND as NAMESPACE
from moorage.apiserver.rbac.bindings import CLUSTER_ROLE, GROUP, ROLE, RoleSubject
from moorage.apiserver.rbac.reconciliation import is_left_alone, missing_subjects, reconciled_binding, reconciled_role
from moorage.apiserver.rbac.rules import missing_rules, rules_of
from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect, connect_home
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, UsageError, warn
from moorage.cli.render import output, printing
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.settings.environment import state_folder

app = typer.Typer(no_args_is_help=True, help="Show your identity and your permissions.")

_NAMESPACES = ServedKind(NAMESPACE, NAMESPACE.versions[0])
_OPTED_OUT = ", but object opted out (rbac.authorization.kubernetes.io/autoupdate: false)"

Document = dict[str, Any]


@app.command("reconcile")
def reconcile(
    ctx: typer.Context,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    remove_permissions: Annotated[
        bool, typer.Option("--remove-extra-permissions", help="Remove permissions of roles that the files do not have.")
    ] = False,
    remove_subjects: Annotated[
        bool, typer.Option("--remove-extra-subjects", help="Remove subjects of bindings that the files do not have.")
    ] = False,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Add the permissions and subjects of files to the existing roles and bindings."""
    if dry_run == "server":
        raise UsageError("--dry-run=server for command reconcile is not supported yet")
    good, failed = options.manifests_of(files, recursive=recursive)
    results = printing.Results(form, dry_run)
    with connect(ctx) as client:
        for item in good:
            if item.kind is None or item.kind.group != GROUP:
                continue
            place = item.namespace(namespace) if item.kind.namespaced else ""
            one = _Reconciled(client, item.kind, place, dict(item.document), writes=dry_run == options.NONE)
            try:
                found = one.written(remove=remove_permissions if one.is_role else remove_subjects)
            except UnreachableError:
                raise
            except CliError as error:
                warn(str(error))
                failed = True
            else:
                results.show(item.kind, item.name, "reconciled", found)
                for line in one.told:
                    warn(line)
    if failed:
        raise typer.Exit(FAILED)


class _Reconciled:
    """One role or binding."""

    def __init__(self, client: Client, kind: ServedKind, namespace: str, expected: Document, *, writes: bool) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        metadata = {**expected["metadata"], **({"namespace": namespace} if namespace else {})}
        self._expected = {**expected, "metadata": metadata}
        self._writes = writes
        self.told: list[str] = []
        """Return the changes that were necessary, in kubectl's words."""

    def written(self, *, remove: bool) -> Document:
        """Write what is necessary, and return the object then. Raises CliError if it cannot be written."""
        present = self._client.find(self._kind, self._namespace, self._name)
        if present is None:
            self._tell("create")
            return self._create()
        caveat = _OPTED_OUT if is_left_alone(present) else ""
        wanted = self._wanted(present, remove=remove)
        if wanted is None:
            self._tell("recreate", caveat)
            if caveat or not self._writes:
                return present
            self._client.delete(self._kind, self._namespace, self._name)
            return self._create()
        if wanted == present:
            return present
        self._tell("update", caveat)
        if caveat or not self._writes:
            return wanted
        return self._client.replace(self._kind, self._namespace, wanted)

    @property
    def is_role(self) -> bool:
        """Whether it is a role, not a binding."""
        return self._kind.kind in {CLUSTER_ROLE, ROLE}

    @property
    def _name(self) -> str:
        return str(self._expected["metadata"]["name"])

    def _tell(self, what: str, caveat: str = "") -> None:
        self.told.insert(0, f"\treconciliation required {what}{caveat}")

    def _create(self) -> Document:
        if not self._writes:
            return self._expected
        if self._namespace:
            self._make_namespace()
        return self._client.create(self._kind, self._namespace, self._expected)

    def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        try:
            self._client.create(_NAMESPACES, "", body)
        except ServerError as error:
            if error.reason not in {"AlreadyExists", "Forbidden"}:
                raise

    def _wanted(self, present: Document, *, remove: bool) -> Document | None:
        """Return the object as it should be. None if it has to be replaced by another one."""
        if self.is_role:
            return self._wanted_role(present, remove=remove)
        wanted = reconciled_binding(self._expected, present)
        if wanted is None:
            return None
        there, expected = present.get("subjects") or [], self._expected.get("subjects") or []
        self._tell_each("missing subjects added", self._described(missing_subjects(there, expected)))
        if remove and (extra := missing_subjects(expected, there)):
            self._tell_each("extra subjects removed", self._described(extra))
            return {**wanted, "subjects": expected}
        return wanted

    def _wanted_role(self, present: Document, *, remove: bool) -> Document:
        wanted = reconciled_role(self._expected, present)
        if self._expected.get("aggregationRule"):
            return wanted
        there, expected = rules_of(present.get("rules")), rules_of(self._expected.get("rules"))
        self._tell_each("missing rules added", map(str, missing_rules(there, expected)))
        if remove and (extra := missing_rules(expected, there)):
            self._tell_each("extra rules removed", map(str, extra))
            return {**wanted, "rules": self._expected.get("rules") or []}
        return wanted

    def _described(self, subjects: Iterable[Mapping[str, Any]]) -> list[str]:
        return [RoleSubject.of(one).described(self._namespace) for one in subjects]

    def _tell_each(self, what: str, found: Iterable[str]) -> None:
        if lines := [f"\t\t{one}" for one in found]:
            self.told += [f"\t{what}:", *lines]


_AUTHORIZATION: Final = "authorization.k8s.io/v1"
_REVIEWS: Final = f"/apis/{_AUTHORIZATION}/selfsubjectaccessreviews"
_RULES: Final = f"/apis/{_AUTHORIZATION}/selfsubjectrulesreviews"
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
    """Check whether you may do something. The exit code is 1 if you may not.

    With --fleet-cluster the check is about that cluster: you need permission to get it, or to update it for changes,
    and the same permission in all namespaces of the home fleet.
    """
    cluster = chosen_cluster(ctx)
    if listing:
        if cluster:
            raise UsageError(
                f"--list: cannot be used with --fleet-cluster: in the cluster {cluster} you have the permissions that "
                "you have in all namespaces, if you may get or update it"
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
    """Return the spec of an access review. Without a namespace it covers all."""
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
    """Return the status of the first review that denies, or of the last one."""
    status: JsonObject = {}
    with connect_home(ctx) as client:
        for spec in specs:
            review = {"apiVersion": _AUTHORIZATION, "kind": "SelfSubjectAccessReview", "spec": spec}
            status = client.post(_REVIEWS, review, reading=True).get("status") or {}
            if not status.get("allowed"):
                break
    return status


def _list(ctx: typer.Context, namespace: str) -> None:
    review = {"apiVersion": _AUTHORIZATION, "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
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


@app.command("whoami")
def whoami(ctx: typer.Context, *, form: options.FormOption = printing.TABLE) -> None:
    """Show your identity."""
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


def identities(
    *,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A further name or address of the gateway. Repeatable.", show_default=False),
    ] = None,
) -> None:
    """Create a gateway's administrator token, keys and certificate.

    They are files in `gateway-identities` of the state folder (MOORAGE_STATE_DIR), which only this user can read.
    Existing files are kept. A certificate that expires within 90 days is replaced. The output has the settings for a
    gateway. `moorage up` makes its own.
    """
    made = GatewayIdentities.in_state(state_folder())
    try:
        made.ensure()
        certificate, key = made.server_certificate(names or ())
    except (OSError, ValueError) as error:
        raise CliError(f"{made.folder}: the identities cannot be made: {error}") from None
    for variable, file in (
        ("MOORAGE_TOKEN_AUTH_FILE", made.tokens),
        ("MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE", made.signing_key),
        ("MOORAGE_TLS_CERT_FILE", certificate),
        ("MOORAGE_TLS_PRIVATE_KEY_FILE", key),
        ("MOORAGE_GATEWAY_CA_FILE", made.authority),
    ):
        output.line(f"{variable}={file}")
