"""Whether a request may be made: its user, impersonation (`kubectl --as`), and the permissions of the roles.

Source: `k8s.io/apiserver/pkg/endpoints/filters/impersonation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import Request

from moorage.apiserver.authentication.authenticator import Authenticator, ShownCredentials
from moorage.apiserver.authentication.certificates import EXTENSION
from moorage.apiserver.authentication.jwts import InvalidCredentialsError, UnknownYetError
from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.http.filters.refused_requests import RefusedRequests
from moorage.apiserver.http.filters.request_attributes import MIRROR_PATH, attributes_of, seen_by
from moorage.apiserver.http.paths import cluster_of
from moorage.apiserver.machinery.api_errors import StatusError, bad_request, unavailable
from moorage.decide.kubernetes.attributes import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    Attributes,
    Permission,
    User,
    about_cluster,
    refusal_text,
)
from moorage.decide.kubernetes.names import ACCOUNT_PREFIX, account_groups
from moorage.runtime.process.origins import foreign_origin

OPEN: Final = ("/healthz", "/livez", "/readyz")
"""The first parts of paths that need no credentials, so that any program can check the process."""


def is_open(path: str) -> bool:
    """Return whether a path needs no credentials."""
    return "/" + path.split("/")[1] in OPEN


_BEARER: Final = "bearer "
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Access:
    """Lets a request through, or refuses it."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, refused: RefusedRequests) -> None:
        self.authenticator = authenticator
        self.authorizer = authorizer
        self._refused = refused

    async def check(self, request: Request) -> None:
        """Let a request through. Its state has the `user` then, and the `sender` if that is another user.

        Raises:
            StatusError: 401 if its credentials do not count, 403 if its user may not make it, 503 if that
                is not known yet.
        """
        path = request.url.path
        if is_open(path):
            return
        self.check_page(request)
        user = await self.identify(request)
        asked = attributes_of(request.method, path, request.query_params)
        if path == MIRROR_PATH:
            self._check(request, user, asked, self.authorizer.authorize_some(user, asked))
            return
        if cluster := cluster_of(request):
            seen = seen_by(path, request.query_params)
            for wanted in (asked, *([seen] if seen is not None else [])):
                for one in about_cluster(cluster, wanted):
                    self.check_permitted(request, user, one)
            return
        self.check_permitted(request, user, asked)
        if (seen := seen_by(path, request.query_params)) is not None:
            self.check_permitted(request, user, seen)

    def check_page(self, request: Request) -> None:
        """Check that no page of another site has made a browser send a request that changes something.

        Raises:
            StatusError: 403 if one has.
        """
        try:
            _check_origin(request)
        except StatusError as error:
            self._refused.tell(request, None, error.code, error.message)
            raise

    async def identify(self, request: Request) -> User:
        """Return the user of a request. Its state has it as `user`, and the `sender` if that is another user.

        Raises:
            StatusError: 401 if its credentials do not count, 403 if its sender may not act for that user, 503 if that
                is not known yet.
        """
        sender = await self.sender(request)
        acting = impersonation_of(request.headers)
        for one in acting.asked if acting is not None else ():
            self.check_permitted(request, sender, one)
        request.state.sender = sender if acting is not None else None
        request.state.user = user = acting.user if acting is not None else sender
        return user

    async def sender(self, request: Request) -> User:
        """Return who sends a request.

        Raises:
            StatusError: 401 if its credentials do not count, 503 if that is not known yet.
        """
        try:
            return await self.authenticator.user(_credentials(request))
        except UnknownYetError as error:
            raise unavailable(str(error)) from None
        except InvalidCredentialsError as error:
            self._refused.tell(request, None, 401, str(error))
            raise StatusError(401, "Unauthorized", reason="Unauthorized") from None

    async def token_for_peer(self, request: Request) -> str:
        """Return the token that identifies a sender to another gateway. Empty if this gateway can sign none.

        Raises:
            StatusError: as `sender`.
        """
        sender, peers = await self.sender(request), self.authenticator.peers
        return peers.sign(sender) if peers is not None else ""

    def check_permitted(self, request: Request, user: User, asked: Attributes) -> None:
        """Check that a user may do something. Raises StatusError: 403 if not."""
        self._check(request, user, asked, self.authorizer.authorize(user, asked))

    def _check(self, request: Request, user: User, asked: Attributes, found: Permission) -> None:
        if not found.allowed:
            error = forbidden(user, asked, found.reason)
            self._refused.tell(request, user, error.code, error.message, asked)
            raise error


def user_of(request: Request) -> User:
    """Return the user of a request that was let through."""
    user: User = request.state.user
    return user


def forbidden(user: User, asked: Attributes, reason: str = "") -> StatusError:
    """403: a user may not do something, in Kubernetes' words."""
    details: dict[str, Any] = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return StatusError(
        403,
        refusal_text(user, asked, reason),
        details={key: value for key, value in details.items() if value and asked.is_of_objects},
    )


def _check_origin(request: Request) -> None:
    """Refuse a request that changes something, if a page of another site has made a browser send it.

    One with a bearer token is let through: a browser adds none by itself, as it does the credentials of other schemes.
    Raises StatusError: 403 if it is refused.
    """
    if request.method in _READING or request.headers.get("authorization", "").lower().startswith(_BEARER):
        return
    if shown := foreign_origin(request):
        raise StatusError(403, f"{shown}: invalid value: pages of other sites may not change anything here")


def _credentials(request: Request) -> ShownCredentials:
    certificate = request.scope.get("extensions", {}).get(EXTENSION)
    header = request.headers.get("authorization", "")
    bearer = header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER else None
    return ShownCredentials(bearer or None, certificate)


_PREFIX: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_ACCOUNT_PARTS: Final = 2


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom the headers of a request name."""

    user: User
    asked: tuple[Attributes, ...]
    """The requests that the caller must be permitted to make."""


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
