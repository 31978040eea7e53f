"""Requests on behalf of somebody else (`kubectl --as`), for those who may `impersonate` them.

Source: `k8s.io/apiserver/pkg/endpoints/filters/impersonation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from starlette.datastructures import Headers

from moorage.apiserver.machinery.api_errors import bad_request
from moorage.decide.kubernetes.accounts import ACCOUNT_PREFIX, account_groups
from moorage.decide.kubernetes.attributes import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Attributes, User

_PREFIX: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_ACCOUNT_PARTS: Final = 2


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom the headers of a request name."""

    user: User
    asked: tuple[Attributes, ...]
    """What the caller must be permitted to do."""


def impersonation_of(headers: Headers) -> Impersonation | None:
    """Return on whose behalf a request is made. None if on its sender's own.

    Raises:
        StatusError: 400 if it names something of a user, and no user.
    """
    named = sorted(name for name in headers if name.startswith(_PREFIX))
    if not named:
        return None
    name = headers.get(f"{_PREFIX}user", "")
    if not name:
        raise bad_request(f"requested {', '.join(named)} without impersonating a user")
    groups, uid = headers.getlist(f"{_PREFIX}group"), headers.get(f"{_PREFIX}uid", "")
    extra: dict[str, tuple[str, ...]] = {}
    for header in dict.fromkeys(one for one in named if one.startswith(_EXTRA)):
        extra[unquote(header.removeprefix(_EXTRA))] = tuple(headers.getlist(header))
    asked = [_of_user(name), *(_asking("groups", group) for group in groups)]
    asked += [_asking("userextras", value, key) for key, values in extra.items() for value in values]
    asked += [_asking("uids", uid)] if uid else []
    return Impersonation(User(name, _groups(name, groups), uid, extra), tuple(asked))


def _asking(resource: str, name: str, subresource: str = "") -> Attributes:
    group = "" if resource in {"users", "groups", "serviceaccounts"} else _GROUP
    return Attributes("impersonate", group, "v1", resource, subresource, "", name)


def _of_user(name: str) -> Attributes:
    parts = _account(name)
    if parts is None:
        return _asking("users", name)
    return Attributes("impersonate", "", "v1", "serviceaccounts", "", parts[0], parts[1])


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user's name means. None if it means none."""
    parts = name.removeprefix(ACCOUNT_PREFIX).split(":")
    if not name.startswith(ACCOUNT_PREFIX) or len(parts) != _ACCOUNT_PARTS or not all(parts):
        return None
    return parts[0], parts[1]


def _groups(name: str, given: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_with_groups_of_all(name, given)))


def _with_groups_of_all(name: str, given: list[str]) -> Iterator[str]:
    account = _account(name)
    yield from given or (account_groups(account[0]) if account is not None else ())
    if name == ANONYMOUS:
        yield UNAUTHENTICATED
    elif UNAUTHENTICATED not in given:
        yield AUTHENTICATED
