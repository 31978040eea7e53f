"""`moorage adm`: commands on nodes and roles, named as in OpenShift's `oc adm`, so that its commands can be copied."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from moorage.apiserver.kinds import roles
from moorage.apiserver.kinds.kind import Kind, ServedKind
from moorage.apiserver.rbac.bindings import CLUSTER_ROLE, GROUP, ROLE, RoleRef
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import cordon, drain, options, taint
from moorage.cli.render import output
from moorage.decide.kubernetes.names import ACCOUNT_PREFIX

_policy = typer.Typer(no_args_is_help=True, help="Give roles to users and groups, and take them away.")

_Role = Annotated[str, typer.Argument(metavar="ROLE", show_default=False)]
_Whom = Annotated[list[str], typer.Argument(metavar="NAME…", show_default=False)]
_RoleNamespace = Annotated[
    str,
    typer.Option("--role-namespace", help="Bind the Role of this namespace.", show_default=False),
]
_USER: Final = "User"
_GROUP: Final = "Group"
_ACCOUNT: Final = "ServiceAccount"

Document = dict[str, Any]


class _Change:
    """A change of the bindings of a role."""

    def __init__(self, ctx: typer.Context, name: str, namespace: str = "", *, is_role: bool = False) -> None:
        self._ctx = ctx
        self._namespace = namespace
        self._ref = RoleRef(ROLE if is_role else CLUSTER_ROLE, name)
        self._role = _served(roles.ROLE if is_role else roles.CLUSTER_ROLE)
        self._kind = _served(roles.ROLE_BINDING if namespace else roles.CLUSTER_ROLE_BINDING)

    def add(self, kind: str, names: Sequence[str]) -> None:
        """Give the role to subjects. At most one binding is added."""
        with connect(self._ctx) as client:
            client.get(self._role, self._namespace, self._ref.name)  # a binding to a missing role grants nothing
            bound = self._bindings(client)
            given = [one for binding in bound for one in binding.get("subjects") or ()]
            missing = [one for one in _subjects(kind, names, self._namespace) if not any(_is(one, g) for g in given)]
            if missing and bound:
                self._write(client, bound[0], [*(bound[0].get("subjects") or ()), *missing])
            elif missing:
                self._create(client, missing)
        self._say("added", names)

    def remove(self, kind: str, names: Sequence[str]) -> None:
        """Take the role from subjects. A binding without subjects is deleted."""
        gone = _subjects(kind, names, self._namespace)
        with connect(self._ctx) as client:
            for binding in self._bindings(client):
                there = binding.get("subjects") or []
                left = [one for one in there if not any(_is(one, other) for other in gone)]
                if len(left) != len(there):
                    self._write(client, binding, left)
        self._say("removed", names)

    def _bindings(self, client: Client) -> list[Document]:
        """Return the bindings of the role."""
        found = client.list(self._kind, self._namespace or None).get("items") or []
        return [one for one in found if RoleRef.of(one.get("roleRef")) == self._ref]

    def _write(self, client: Client, binding: Document, subjects: list[Document]) -> None:
        name = str(binding["metadata"]["name"])
        if subjects:
            head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
            client.replace(self._kind, self._namespace, {**binding, **head, "subjects": subjects})
        else:
            client.delete(self._kind, self._namespace, name)

    def _create(self, client: Client, subjects: list[Document]) -> None:
        taken = {
            str(one["metadata"]["name"]) for one in client.list(self._kind, self._namespace or None)["items"] or ()
        }
        called = itertools.chain((self._ref.name,), (f"{self._ref.name}-{number}" for number in itertools.count()))
        place = {"namespace": self._namespace} if self._namespace else {}
        document = {
            "apiVersion": self._kind.api_version,
            "kind": self._kind.kind,
            "metadata": {"name": next(name for name in called if name not in taken), **place},
            "roleRef": {"apiGroup": GROUP, "kind": self._ref.kind, "name": self._ref.name},
            "subjects": subjects,
        }
        client.create(self._kind, self._namespace, document)

    def _say(self, word: str, names: Sequence[str]) -> None:
        shown = f'"{names[0]}"' if len(names) == 1 else f"[{' '.join(f'{name!r}' for name in names)}]".replace("'", '"')
        output.line(f"{self._role.called(self._ref.name)} {word}: {shown}")


def _served(kind: Kind[Any]) -> ServedKind:
    return ServedKind(kind, kind.versions[0])


def _subjects(kind: str, names: Sequence[str], namespace: str) -> list[Document]:
    """Return the subjects of names. A user may be a service account: `system:serviceaccount:<namespace>:<name>`."""
    found: list[Document] = []
    for name in names:
        place, colon, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
        if kind == _USER and name.startswith(ACCOUNT_PREFIX) and colon:
            found.append({"kind": _ACCOUNT, "namespace": place or namespace, "name": account})
        else:
            found.append({"kind": kind, "apiGroup": GROUP, "name": name})
    return found


def _is(one: Document, other: Document) -> bool:
    return all(one.get(field, "") == other.get(field, "") for field in ("kind", "name", "namespace"))


_Act = Callable[[_Change, str, Sequence[str]], None]


def _everywhere(act: _Act, subject: str) -> Callable[..., None]:
    """Make a command about a ClusterRole in all namespaces."""

    def command(ctx: typer.Context, role_name: _Role, names: _Whom) -> None:
        act(_Change(ctx, role_name), subject, names)

    return command


def _in_a_namespace(act: _Act, subject: str) -> Callable[..., None]:
    """Make a command about a role in one namespace."""

    def command(
        ctx: typer.Context,
        role_name: _Role,
        names: _Whom,
        *,
        namespace: options.Namespace = "default",
        role_namespace: _RoleNamespace = "",
    ) -> None:
        act(_Change(ctx, role_name, namespace, is_role=bool(role_namespace)), subject, names)

    return command


for _where, _make, _role in (
    ("cluster-role", _everywhere, "a ClusterRole in all namespaces"),
    ("role", _in_a_namespace, "a role in a namespace"),
):
    for _subject_kind, _one, _many in ((_USER, "user", "users"), (_GROUP, "group", "groups")):
        _policy.command(f"add-{_where}-to-{_one}", help=f"Give {_many} {_role}.")(_make(_Change.add, _subject_kind))
        _policy.command(f"remove-{_where}-from-{_one}", help=f"Take {_role} from {_many}.")(
            _make(_Change.remove, _subject_kind)
        )


app = typer.Typer(no_args_is_help=True, help="Manage targets and roles with the commands of `oc adm`.")

app.command("taint")(taint.taint)
app.command("cordon")(cordon.cordon)
app.command("uncordon")(cordon.uncordon)
app.command("drain")(drain.drain)
app.add_typer(_policy, name="policy")
