"""As whom a request is made.

There is no authentication yet. Whoever reaches the gateway is its one administrator, who may do everything, and who may
ask what somebody else may do (`kubectl --as`). Nobody else exists, so nobody else may do anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from moorage.gateway.errors import StatusError, bad_request
from moorage.gateway.http.paths import ResourcePath

USER: Final = "moorage:admin"
"""The name of the one administrator."""

MASTERS: Final = "system:masters"
"""The group whose members may do everything."""

AUTHENTICATED: Final = "system:authenticated"
NOBODY_ELSE: Final = f"there is no other user than {USER}"
"""Why somebody may not do something."""

_GROUPS: Final = (MASTERS, AUTHENTICATED)
_PREFIX: Final = "impersonate-"
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Identity:
    """A user, as access reviews know them."""

    user: str = USER
    groups: tuple[str, ...] = _GROUPS

    @property
    def is_admin(self) -> bool:
        """Whether it may do everything."""
        return self.user == USER or MASTERS in self.groups


def identity_of(request: Request) -> Identity:
    """Return as whom a request is made: the administrator, or whom its headers `Impersonate-…` name.

    Raises:
        StatusError: 400 if they name something of a user, and no user.
    """
    headers = request.headers
    user = headers.get(f"{_PREFIX}user", "")
    if user:
        groups = (*headers.getlist(f"{_PREFIX}group"), AUTHENTICATED)
        return Identity(user, tuple(dict.fromkeys(groups)))
    if named := sorted(name for name in headers if name.startswith(_PREFIX)):
        raise bad_request(f"requested {', '.join(named)} without impersonating a user")
    return Identity()


def check_permitted(request: Request, path: ResourcePath) -> None:
    """Check that a request about objects is made as somebody who exists.

    Raises:
        StatusError: 403 if it is not.
    """
    identity = identity_of(request)
    if not identity.is_admin:
        plural = f"{path.kind.plural}/{path.subresource}" if path.subresource else path.kind.plural
        raise forbidden(
            identity, _verb(request, path), path.kind.group, plural, namespace=path.namespace, name=path.name
        )


def forbidden(identity: Identity, verb: str, group: str, plural: str, *, namespace: str, name: str = "") -> StatusError:
    """403: somebody may not do something, in Kubernetes' words."""
    resource = f"{plural.partition('/')[0]}.{group}" if group else plural.partition("/")[0]
    what = f'{resource} "{name}"' if name else resource
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    details: dict[str, Any] = {"name": name} if name else {}
    details |= {"group": group} if group else {}
    return StatusError(
        403,
        f'{what} is forbidden: User "{identity.user}" cannot {verb} resource "{plural}" in API group "{group}" '
        f"{where}: {NOBODY_ELSE}",
        details={**details, "kind": plural.partition("/")[0]},
    )


def _verb(request: Request, path: ResourcePath) -> str:
    """The verb that a permission names."""
    if request.method in _VERBS:
        return _VERBS[request.method]
    if request.method == "DELETE":
        return "delete" if path.name else "deletecollection"
    if path.is_watched or request.query_params.get("watch", "") in {"1", "true"}:
        return "watch"
    return "get" if path.name else "list"
