"""Authenticates a request by its credentials in turn, with static tokens and OIDC issuers as in a kube-apiserver."""

from __future__ import annotations

import csv
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from moorage.apiserver.authentication.account_tokens import AccountClaims, AccountKeys, StoredAccounts
from moorage.apiserver.authentication.certificates import ClientCertificate
from moorage.apiserver.authentication.jwts import (
    ChangingFile,
    FetchedKeys,
    FileKeys,
    InvalidCredentialsError,
    KeySet,
    claimed,
    decoded,
)
from moorage.apiserver.authentication.peers import KIND as PEER_KIND
from moorage.apiserver.authentication.peers import Peers
from moorage.apiserver.metrics import Metrics
from moorage.decide.kubernetes.attributes import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from moorage.runtime.identities import gateway_identities
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.server_settings import names_in

T = TypeVar("T")

ADMIN: Final = User(gateway_identities.ADMIN, (MASTERS, AUTHENTICATED))
"""The administrator of a gateway without authentication."""

NOBODY: Final = User(ANONYMOUS, (UNAUTHENTICATED,))
"""The user of requests without credentials."""

CACHED: Final = 4_096
"""How many checked tokens are remembered."""

CACHED_SECONDS: Final = 10.0
"""For how long, as in a kube-apiserver. A signature takes a thousand times as long to check as it takes to look up."""


@dataclass(frozen=True, slots=True)
class ShownCredentials:
    """The credentials of a request."""

    bearer: str | None = None
    certificate: ClientCertificate | None = None


class Authenticator:
    """The authentication of requests. `oidc` accepts JWTs, instead of what the settings name.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is invalid. The message names the setting, the file and the rule.
    """

    def __init__(
        self,
        settings: Settings,
        lookup: StoredAccounts,
        metrics: Metrics,
        *,
        oidc: Oidc | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._metrics = metrics
        self._oidc = oidc or _of_setting("oidc_jwks", settings.oidc_jwks, lambda: oidc_of(settings))
        name = settings.token_auth_file
        self._tokens = _of_setting("token_auth_file", name, lambda: ChangingFile(name, read_tokens)) if name else None
        skew = timedelta(seconds=settings.authentication_clock_skew)
        key = settings.service_account_signing_key_file
        self.accounts = _of_setting("service_account_signing_key_file", key, lambda: _account_keys(settings, skew))
        """The keys of service accounts' tokens."""

        self.peers = _of_setting("service_account_signing_key_file", key, lambda: Peers(key, skew)) if key else None
        """Signs requests to other gateways. None if they cannot check that."""

        self.longest_account_token = int(settings.service_account_max_token_expiration)
        """Seconds for which a service account's token may count. 0 sets no limit."""

        asks = settings.authenticates
        admin = (
            settings.listens_on_loopback and not asks if settings.loopback_admin is None else settings.loopback_admin
        )
        self.without = ADMIN if admin else NOBODY if settings.anonymous_auth else None
        """The user of a request without credentials. None if such a request is refused."""

        self._cache = _Cache(clock)

    async def user(self, shown: ShownCredentials) -> User:
        """Return the user with these credentials.

        Raises:
            InvalidCredentialsError: they are invalid, or missing and required.
            UnknownYetError: they cannot be checked yet.
        """
        method = "none" if shown.bearer is None else "token"
        if shown.certificate is not None and shown.certificate.common_name:
            method = "certificate"
        result = "refused"
        try:
            found = await self._user(shown)
            result = "accepted"
        finally:
            self._metrics.authentications.labels(method, result).inc()
        return found

    async def _user(self, shown: ShownCredentials) -> User:
        if shown.certificate is not None and shown.certificate.common_name:
            return _authenticated(shown.certificate.user)
        if shown.bearer is not None:
            return await self._of_token(shown.bearer)
        if self.without is None:
            raise InvalidCredentialsError("there are no credentials")
        return self.without

    async def _of_token(self, token: str) -> User:
        if self._tokens is not None and (found := self._tokens.content.get(digest(token))) is not None:
            return _authenticated(found)
        said = claimed(token)
        if said is None:
            raise InvalidCredentialsError("the bearer token is not known, and is no JWT")
        if said.kind == PEER_KIND and self.peers is not None:
            return self.peers.user(token)  # with the groups that it has there
        key = digest(token)
        if said.issuer == self.accounts.issuer:
            claims = self._cache.get(key)
            if not isinstance(claims, AccountClaims):
                claims = self.accounts.claims(token, said.key_id)
                self._cache.put(key, claims)
            if problem := self._lookup.problem(claims):
                raise InvalidCredentialsError(problem)
            return _authenticated(claims.user)
        if self._oidc is not None and said.issuer == self._oidc.issuer:
            user = self._cache.get(key)
            if not isinstance(user, User):
                user = self._oidc.user(await self._oidc.claims(token, said.key_id))
                self._cache.put(key, user)
            return _authenticated(user)
        raise InvalidCredentialsError(f"the issuer {said.issuer[:253]!r} of the bearer token is not accepted")

    async def review(self, token: str, audiences: Sequence[str]) -> tuple[User, Sequence[str]]:
        """Return whose token it is, and for which of the audiences it counts. Those of this API if none are given.

        Raises:
            InvalidCredentialsError: it does not count for any.
            UnknownYetError: they cannot be checked yet.
        """
        said = claimed(token)
        if said is not None and said.issuer == self.accounts.issuer:
            claims = self.accounts.claims(token, said.key_id, audiences)
            if problem := self._lookup.problem(claims):
                raise InvalidCredentialsError(problem)
            return _authenticated(claims.user), claims.audiences
        own = self.accounts.audiences
        meant = [one for one in audiences if one in own] if audiences else list(own)
        if not meant:
            raise InvalidCredentialsError("the token is not for any of these audiences")
        return await self._of_token(token), meant

    async def close(self) -> None:
        """Disconnect."""
        if self._oidc is not None:
            await self._oidc.close()


class _Cache:
    """Checked tokens by their hashes, for a short time. A token's expiry is not looked at again in that time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, User | AccountClaims]] = OrderedDict()

    def get(self, key: bytes) -> User | AccountClaims | None:
        found = self._known.get(key)
        if found is None or self._clock() >= found[0]:
            return None
        return found[1]

    def put(self, key: bytes, checked: User | AccountClaims) -> None:
        self._known[key] = self._clock() + CACHED_SECONDS, checked
        self._known.move_to_end(key)
        while len(self._known) > CACHED:
            self._known.popitem(last=False)


def _authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _account_keys(settings: Settings, skew: timedelta) -> AccountKeys:
    return AccountKeys(
        settings.service_account_signing_key_file,
        names_in(settings.service_account_key_file),
        issuer=settings.service_account_issuer,
        audiences=names_in(settings.api_audiences),
        skew=skew,
    )


def _of_setting(field: str, value: str, make: Callable[[], T]) -> T:
    """Return what is made from a file that a setting names."""
    try:
        return make()
    except OSError as error:
        why = f"{error.filename or value}: {error.strerror}"
        raise OSError(f"MOORAGE_{field.upper()}: invalid value {value!r}: cannot be read: {why}") from None
    except ValueError as error:
        raise ValueError(f"MOORAGE_{field.upper()}: invalid value {value!r}: {error}") from None


_LEAST: Final = 3  # token, user, uid


def read_tokens(text: str) -> Mapping[bytes, User]:
    """Return the users of a token file by the hashes of their tokens.

    Each line is `token,user,uid`, optionally followed by a quoted list of groups.

    Raises:
        ValueError: a line is invalid. The message names it, and never shows a token.
    """
    found: dict[bytes, User] = {}
    for number, row in enumerate(csv.reader(text.splitlines(), skipinitialspace=True), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < _LEAST:
            raise ValueError(f"line {number}: must have a token, a user and a uid, separated by commas")
        token, name, uid, *more = (part.strip() for part in row)
        if not token or not name:
            raise ValueError(f"line {number}: {'the token' if not token else 'the user'} must not be empty")
        if digest(token) in found:
            raise ValueError(f"line {number}: an earlier line has the same token")
        groups = tuple(part.strip() for part in more[0].split(",") if part.strip()) if more else ()
        found[digest(token)] = User(name, groups, uid)
    return found


def digest(token: str) -> bytes:
    """Return the hash by which a token is looked up, so that its duration reveals nothing about tokens."""
    return hashlib.sha256(token.encode()).digest()


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
    """Accepts the JWTs of one issuer."""

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
        """Return the user whom claims are about. Raises InvalidCredentialsError if they name none."""
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
