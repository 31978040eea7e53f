"""Sessions of pages: from a token in a cookie, a client certificate, or as the administrator of this machine.

A gateway keeps nothing of a session, so any gateway of the fleet answers the next request. The cookie counts for the
console alone. The API does not look at it, so no page of another site can use it there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from moorage.console.host import Host, PageError
from moorage.decide.kubernetes.attributes import ANONYMOUS, User
from moorage.runtime.identities.gateway_identities import derived_key
from moorage.runtime.process.origins import foreign_origin

TOKEN_LIMIT: Final = 2_800
"""The longest token in bytes. As a cookie it has to fit into 4,096 bytes."""

_SECURE_COOKIE: Final = "__Host-moorage-console"
_PLAIN_COOKIE: Final = "moorage-console"
_PURPOSE: Final = b"moorage console csrf v1"
_UNAUTHENTICATED: Final = 401


class LoginNeededError(Exception):
    """The request has no session. `ended`: whether its token is no longer valid."""

    def __init__(self, *, ended: bool) -> None:
        super().__init__("log in")
        self.ended = ended


@dataclass(frozen=True, slots=True)
class Session:
    """A user's session."""

    user: User
    csrf: str
    """The secret that a form sends along. Other sites cannot read it."""

    has_cookie: bool = False
    """Whether the session began with a login, so that the user can log out."""


class Sessions:
    """Finds the session of a request. Raises OSError if that key cannot be read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        key_file = host.settings.service_account_signing_key_file
        self._shared = derived_key(key_file, _PURPOSE) if key_file else b""
        self._own = secrets.token_bytes(32)
        """Of this process. It is used where no token and no key of the fleet makes a form's value secret."""

    async def of(self, request: Request) -> Session:
        """Return the session of a request. Its state has the `user` then.

        Raises:
            LoginNeededError: the request has no session.
            PageError: 403 if the sender may not act for the user, 503 if neither is known yet.
        """
        token = token_of(request)
        try:
            user, sender = await self._host.identify(Request(with_token(request.scope, token)))
        except PageError as error:
            if error.code == _UNAUTHENTICATED:
                raise LoginNeededError(ended=bool(token)) from None
            raise
        if user.name == ANONYMOUS:
            raise LoginNeededError(ended=False)
        request.state.user = user
        return Session(user, self._csrf(token, user, sender), bool(token))

    def check_form(self, request: Request, session: Session, sent: str) -> None:
        """Check that a form was sent by a page of the console. Raises PageError: 403 if it was not."""
        check_same_site(request)
        if not hmac.compare_digest(sent.encode(), session.csrf.encode()):
            raise PageError(403, "csrf: invalid value: must be that of a page of this session. Load the page again.")

    def _csrf(self, token: str, user: User, sender: str) -> str:
        key = self._shared + token.encode() or self._own
        return hmac.new(key, f"{user.name}\n{sender}".encode(), hashlib.sha256).hexdigest()


def check_same_site(request: Request) -> None:
    """Check that no page of another site has sent a form. Raises PageError: 403 if one has."""
    if shown := foreign_origin(request):
        raise PageError(403, f"{shown}: invalid value: forms of other sites are not taken")


def token_of(request: Request) -> str:
    """Return the token in the cookie of a request. Empty if there is none."""
    kept = request.cookies.get(_cookie(request), "")
    try:
        return base64.urlsafe_b64decode(kept.encode()).decode()
    except ValueError:
        return ""


def with_token(scope: Scope, token: str) -> Scope:
    """Return the scope of the same request as the API has to see it: without cookies, and with a token if there is one.

    A request that shows credentials by itself keeps them.
    """
    headers = MutableHeaders(raw=list(scope["headers"]))
    del headers["cookie"]
    if token and "authorization" not in headers:
        headers["authorization"] = f"Bearer {token}"
    return {**scope, "headers": headers.raw, "state": {}}


def remember(request: Request, response: Response, token: str) -> None:
    """Log in: have the browser keep a token until it is closed."""
    kept = base64.urlsafe_b64encode(token.encode()).decode()
    response.set_cookie(_cookie(request), kept, path="/", secure=_is_secure(request), httponly=True, samesite="strict")


def forget(request: Request, response: Response) -> None:
    """Log out."""
    response.delete_cookie(_cookie(request), path="/", secure=_is_secure(request), httponly=True, samesite="strict")


def _cookie(request: Request) -> str:
    """Return the name of the cookie. Browsers accept the prefix `__Host-` over HTTPS only."""
    return _SECURE_COOKIE if _is_secure(request) else _PLAIN_COOKIE


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
