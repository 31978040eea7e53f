"""`moorage auth reconcile`: roles and bindings of files get what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.namespace import KIND as NAMESPACE
from moorage.apiserver.rbac.bindings import CLUSTER_ROLE, GROUP, ROLE, RoleSubject
from moorage.apiserver.rbac.escalation import missing_rules
from moorage.apiserver.rbac.reconciliation import is_left_alone, missing_subjects, reconciled_binding, reconciled_role
from moorage.apiserver.rbac.rules import rules_of
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, UsageError, warn
from moorage.cli.render import printing

_NAMESPACES = ServedKind(NAMESPACE, NAMESPACE.versions[0])
_OPTED_OUT = ", but object opted out (rbac.authorization.kubernetes.io/autoupdate: false)"

Document = dict[str, Any]


def reconcile(
    ctx: typer.Context,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    remove_permissions: Annotated[
        bool, typer.Option("--remove-extra-permissions", help="Take away what roles give beside the files.")
    ] = False,
    remove_subjects: Annotated[
        bool, typer.Option("--remove-extra-subjects", help="Take away the subjects of bindings beside the files.")
    ] = False,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Give the roles and bindings that are there what those of files have."""
    if dry_run == "server":
        raise UsageError("--dry-run=server for command reconcile is not supported yet")
    good, refused = options.manifests_of(files, recursive=recursive)
    failed = bool(refused)
    for refusal in refused:
        warn(str(refusal))
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
    """One role or binding.

    Args:
        client: of the gateway.
        kind: of the object.
        namespace: of the object. Empty if it has none.
        expected: the object of a file.
        writes: whether anything is written.
    """

    def __init__(self, client: Client, kind: ServedKind, namespace: str, expected: Document, *, writes: bool) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        metadata = {**expected["metadata"], **({"namespace": namespace} if namespace else {})}
        self._expected = {**expected, "metadata": metadata}
        self._writes = writes
        self.told: list[str] = []
        """What was necessary, in kubectl's words."""

    def written(self, *, remove: bool) -> Document:
        """Write what is necessary, and return the object then.

        Raises:
            CliError: it cannot be written.
        """
        present = self._present()
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

    def _present(self) -> Document | None:
        try:
            return self._client.get(self._kind, self._namespace, self._name)
        except ServerError as error:
            if error.reason != "NotFound":
                raise
            return None

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
        """The object as it should be. None if it has to be replaced by another one."""
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
