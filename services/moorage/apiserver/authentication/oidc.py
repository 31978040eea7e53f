"""JWTs of an OpenID Connect issuer, as a kube-apiserver's `--oidc-…` flags describe them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from moorage.apiserver.authentication.jwts import decoded
from moorage.apiserver.authentication.key_sets import FetchedKeys, FileKeys, KeySet
from moorage.apiserver.authentication.refusals import InvalidCredentialsError
from moorage.decide.kubernetes.attributes import User
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.setting_types import names_in

_NO_PREFIX = "-"


def oidc_of(settings: Settings, keys: KeySet | None = None) -> Oidc | None:
    """Return what accepts the JWTs of the settings' issuer. None if they name none.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file of keys is none.
    """
    if not settings.oidc_issuer_url:
        return None
    return Oidc(settings, keys or _keys(settings))


def _keys(settings: Settings) -> KeySet:
    where = settings.oidc_jwks
    if where and not where.startswith(("http://", "https://")):
        return FileKeys(where.removeprefix("file://"))
    return FetchedKeys(where or settings.oidc_issuer_url, discovered=not where, ca_file=settings.oidc_ca_file)


class Oidc:
    """Accepts the JWTs of one issuer.

    Args:
        settings: the issuer, and what its claims mean.
        keys: its keys.
    """

    def __init__(self, settings: Settings, keys: KeySet) -> None:
        self._keys = keys
        self.issuer = settings.oidc_issuer_url
        """The claim `iss` of its tokens."""

        self._audiences = names_in(settings.oidc_client_id)
        self._algorithms = names_in(settings.oidc_signing_algs)
        self._skew = timedelta(seconds=settings.authentication_clock_skew)
        self._name, self._groups = settings.oidc_username_claim, settings.oidc_groups_claim
        self._group_prefix = settings.oidc_groups_prefix
        prefix = settings.oidc_username_prefix
        if not prefix and self._name != "email":
            prefix = f"{self.issuer}#"
        self._prefix = "" if prefix == _NO_PREFIX else prefix

    async def claims(self, token: str, key_id: str) -> Mapping[str, Any]:
        """Return the claims of a token.

        Raises:
            InvalidCredentialsError: it is not the issuer's, not for this audience, too old or not valid yet.
        """
        keys = await self._keys.candidates(key_id)
        return decoded(
            token, keys, algorithms=self._algorithms, audiences=self._audiences, issuer=self.issuer, skew=self._skew
        )

    def user(self, claims: Mapping[str, Any]) -> User:
        """Return the user whom claims are about.

        Raises:
            InvalidCredentialsError: they name none.
        """
        name = claims.get(self._name)
        if not isinstance(name, str) or not name:
            raise InvalidCredentialsError(f"its claim {self._name} must be a text that is not empty")
        if self._name == "email" and claims.get("email_verified", True) is not True:
            raise InvalidCredentialsError("its claim email_verified must be true")
        given = claims.get(self._groups) if self._groups else None
        groups = [given] if isinstance(given, str) else given or []
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise InvalidCredentialsError(f"its claim {self._groups} must be a text or a list of texts")
        return User(self._prefix + name, tuple(self._group_prefix + group for group in groups))

    async def close(self) -> None:
        """Disconnect."""
        await self._keys.close()
