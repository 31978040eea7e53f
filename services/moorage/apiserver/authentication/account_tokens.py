"""Service accounts and their tokens, in the form of Kubernetes."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from moorage.apiserver.authentication.jwts import InvalidCredentialsError, UnknownYetError, VerifyingKey, decoded
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.store import Store
from moorage.decide.kubernetes.attributes import User
from moorage.decide.kubernetes.names import account_groups, account_user

CLAIM: Final = "kubernetes.io"
"""The claim with the account, and the object on which the token depends."""

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""The key of a user's extra value with the id of the token that it has shown."""

_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_NODE_UID: Final = "authentication.kubernetes.io/node-uid"
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_BOUND: Final = {"Pod": "pod", "Secret": "secret", "Node": "node"}
"""The claims of the objects on which a token may depend, by their kinds."""


@dataclass(frozen=True, slots=True)
class ObjectOfToken:
    """An object that a token names: its account, or the one on which it depends."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class AccountClaims:
    """The claims of a checked token."""

    namespace: str
    account: ObjectOfToken
    bound: tuple[ObjectOfToken, ...] = ()
    """The objects of which each must still be there."""

    token_id: str = ""
    audiences: tuple[str, ...] = ()

    @property
    def user(self) -> User:
        """The account as a user."""
        extra = {CREDENTIAL_ID: (f"JTI={self.token_id}",)} if self.token_id else {}
        for one in self.bound:
            if one.kind == "Pod":
                extra |= {_POD_NAME: (one.name,), _POD_UID: (one.uid,)}
            elif one.kind == "Node":
                extra |= {_NODE_NAME: (one.name,), _NODE_UID: (one.uid,)}
        name = account_user(self.namespace, self.account.name)
        return User(name, account_groups(self.namespace), self.account.uid, extra)


@dataclass(frozen=True, slots=True)
class RequestedToken:
    """A token that is to be signed."""

    namespace: str
    account: ObjectOfToken
    audiences: Sequence[str]
    lifetime: timedelta
    bound: Sequence[ObjectOfToken] = ()


class AccountKeys:
    """The keys of service accounts' tokens.

    Args:
        signing_file: the private key. Empty if no tokens are signed here.
        verifying_files: further keys, public or private, whose tokens count.
        issuer: the claim `iss`.
        audiences: those of this API, of which a token must have one.
        skew: by how much clocks may differ.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file has no usable key. The message names it.
    """

    def __init__(
        self,
        signing_file: str,
        verifying_files: Sequence[str],
        *,
        issuer: str,
        audiences: Sequence[str],
        skew: timedelta,
    ) -> None:
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._skew = skew
        self._signing = _private_key(Path(signing_file)) if signing_file else None
        own = [self._signing[1]] if self._signing is not None else []
        keys = [*own, *(_public_key(Path(file)) for file in verifying_files)]
        self._keys = {key.key_id: key for key in keys}

    @property
    def signs(self) -> bool:
        """Whether tokens are issued here."""
        return self._signing is not None

    def sign(self, wanted: RequestedToken, now: datetime) -> tuple[str, datetime]:
        """Return a new token, and until when it counts. Raises ValueError if no tokens are signed here."""
        if self._signing is None:
            raise ValueError(
                "no tokens of service accounts are issued: MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE is not set"
            )
        now = now.replace(microsecond=0)
        until = now + wanted.lifetime
        account = {"name": wanted.account.name, "uid": wanted.account.uid}
        about: dict[str, Any] = {"namespace": wanted.namespace, "serviceaccount": account}
        about |= {_BOUND[one.kind]: {"name": one.name, "uid": one.uid} for one in wanted.bound}
        claims = {
            "aud": list(wanted.audiences),
            "exp": int(until.timestamp()),
            "iat": int(now.timestamp()),
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            CLAIM: dict(sorted(about.items())),
            "nbf": int(now.timestamp()),
            "sub": account_user(wanted.namespace, wanted.account.name),
        }
        key, shown = self._signing
        token = jwt.encode(claims, key, algorithm=shown.algorithms[0], headers={"kid": shown.key_id, "typ": None})
        return token, until

    def claims(self, token: str, key_id: str, audiences: Sequence[str] = ()) -> AccountClaims:
        """Return the claims of a token.

        Raises:
            InvalidCredentialsError: it was not signed by one of these keys, or does not count here and now.
        """
        named = self._keys.get(key_id)
        keys = [named] if named is not None else [] if key_id else list(self._keys.values())
        algorithms = [name for key in keys for name in key.algorithms]
        wanted = list(audiences or self.audiences)
        found = decoded(token, keys, algorithms=algorithms, audiences=wanted, issuer=self.issuer, skew=self._skew)
        about = found.get(CLAIM)
        account = _named(about, "serviceaccount", "ServiceAccount")
        namespace = about.get("namespace") if isinstance(about, Mapping) else None
        if account is None or not isinstance(namespace, str):
            raise InvalidCredentialsError(f"its claim {CLAIM} names no service account")
        if found.get("sub") != account_user(namespace, account.name):
            raise InvalidCredentialsError("its subject is not its service account")
        bound = tuple(one for kind, claim in _BOUND.items() if (one := _named(about, claim, kind)) is not None)
        given = found["aud"]
        said = {given} if isinstance(given, str) else set(given)
        return AccountClaims(
            namespace, account, bound, str(found.get("jti") or ""), tuple(one for one in wanted if one in said)
        )

    def key_set(self) -> dict[str, Any]:
        """Return the public keys as a JSON Web Key Set."""
        return {"keys": [_shown(key) for key in self._keys.values()]}

    @property
    def algorithms(self) -> list[str]:
        """The algorithms by which tokens are signed."""
        return sorted({name for key in self._keys.values() for name in key.algorithms})


def _named(about: Any, claim: str, kind: str) -> ObjectOfToken | None:
    found = about.get(claim) if isinstance(about, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    return ObjectOfToken(kind, str(found.get("name") or ""), str(found.get("uid") or ""))


def _private_key(file: Path) -> tuple[Any, VerifyingKey]:
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: is no PEM file with a private key: {error}") from None
    return key, _verifying(file, key.public_key())


def _public_key(file: Path) -> VerifyingKey:
    content = file.read_bytes()
    if b"PRIVATE KEY" in content:
        return _private_key(file)[1]
    try:
        key = serialization.load_pem_public_key(content)
    except ValueError as error:
        raise ValueError(f"{file}: is no PEM file with a key: {error}") from None
    return _verifying(file, key)


def _verifying(file: Path, key: Any) -> VerifyingKey:
    match key:
        case rsa.RSAPublicKey():
            algorithm = "RS256"
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
            algorithm = _CURVES[key.curve.name]
        case ed25519.Ed25519PublicKey():
            algorithm = "EdDSA"
        case _:
            raise ValueError(f"{file}: must be a key of RSA, ECDSA (P-256, P-384, P-521) or Ed25519")
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    key_id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    return VerifyingKey(key_id, key, (algorithm,))


def _shown(key: VerifyingKey) -> dict[str, Any]:
    algorithm = key.algorithms[0]
    shown = jwt.get_algorithm_by_name(algorithm).to_jwk(key.key, as_dict=True)
    return {"use": "sig", "kid": key.key_id, "alg": algorithm, **{k: v for k, v in shown.items() if k != "key_ops"}}


class StoredAccounts:
    """Accounts and their tokens' objects in the store. A token becomes invalid when one of them is deleted."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def problem(self, claims: AccountClaims) -> str:
        """Return why a token is invalid now. Empty if it is valid."""
        if not self._store.ready:
            raise UnknownYetError("the gateway is not ready: it is still reading its tables")
        for one in (claims.account, *claims.bound):
            if problem := self._problem_of(one, claims.namespace):
                return problem
        return ""

    def _problem_of(self, one: ObjectOfToken, namespace: str) -> str:
        uid = self.uid(one.kind, namespace, one.name)
        if uid == one.uid:
            return ""
        what = f"the {one.kind} {one.name!r} on which the token depends"
        return f"{what} no longer exists" if not uid else f"{what} is another one by now"

    def uid(self, kind: str, namespace: str, name: str) -> str:
        """Return the uid of an object. Empty if it does not exist."""
        place = "" if kind == "Node" else namespace
        shown = self._store.get(ObjectId(kind, place, name))
        return "" if shown is None else str(shown.document["metadata"].get("uid", ""))
