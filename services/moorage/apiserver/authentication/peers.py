"""Identities of users in requests between gateways and query workers.

A gateway that does not lead has checked who sends a write, by a certificate perhaps, which it cannot pass on. So it
signs the user into a token that counts for a minute, between those alone that have the service accounts' signing key.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import jwt

from moorage.apiserver.authentication.jwts import InvalidCredentialsError
from moorage.decide.kubernetes.attributes import User
from moorage.runtime.identities.gateway_identities import derived_key

KIND: Final = "moorage-peer+jwt"
"""The header `typ` of these tokens."""

_AUDIENCE: Final = "moorage-peers"
_ALGORITHM: Final = "HS256"
_LIFETIME: Final = timedelta(minutes=1)


class Peers:
    """Signs and checks such tokens. A key of its own is derived from the service accounts' signing key.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, key_file: str, skew: timedelta) -> None:
        self._key = derived_key(key_file, b"moorage peers")
        self._skew = skew

    def sign(self, user: User) -> str:
        """Return a token for a request on behalf of a user."""
        claims = {
            "sub": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "aud": _AUDIENCE,
            "exp": datetime.now(UTC) + _LIFETIME,
        }
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM, headers={"typ": KIND})

    def user(self, token: str) -> User:
        """Return the user whom a token names.

        Raises:
            InvalidCredentialsError: no peer has signed it, or it is too old.
        """
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                leeway=self._skew,
                options={"require": ["exp", "aud", "sub"]},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidCredentialsError(f"as that of another gateway: {error}") from None
        extra = {key: tuple(values) for key, values in claims["extra"].items()}
        return User(claims["sub"], tuple(claims["groups"]), claims["uid"], extra)
