"""JSON Web Tokens: their claims before and after validation, and the key sets that validate them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import httpx
import jwt
import orjson
import structlog

from moorage.runtime.process.shared_files import stamp_of

_PARTS: Final = 3
_LONGEST: Final = 16_384
"""Characters of the longest token that is looked at."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The unverified claims of a token. They do not count until the token is checked."""

    issuer: str
    key_id: str
    kind: str
    """The header `typ`."""


def claimed(token: str) -> Claimed | None:
    """Return the unverified claims of a token. None if it is no JWT."""
    if token.count(".") != _PARTS - 1 or len(token) > _LONGEST:
        return None
    try:
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return None
    return Claimed(str(claims.get("iss") or ""), str(header.get("kid") or ""), str(header.get("typ") or ""))


def decoded(
    token: str,
    keys: Sequence[VerifyingKey],
    *,
    algorithms: Sequence[str],
    audiences: Sequence[str],
    issuer: str,
    skew: timedelta,
) -> Mapping[str, Any]:
    """Return the claims of a token that one of the keys has signed.

    Raises:
        InvalidCredentialsError: none has, or a claim about when, where or by whom it counts is missing or wrong.
    """
    problem = "there is no key to check it"
    for key in keys:
        allowed = [name for name in key.algorithms if name in algorithms]
        if not allowed:
            problem = f"the algorithms of its key, {', '.join(key.algorithms)}, are not allowed"
            continue
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=allowed,
                audience=list(audiences),
                issuer=issuer,
                leeway=skew,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError) as error:
            problem = str(error) or "its signature is wrong"
        except jwt.InvalidTokenError as error:
            raise InvalidCredentialsError(str(error)) from None
    raise InvalidCredentialsError(problem)


_log = structlog.get_logger(__name__)

FRESH_SECONDS: Final = 300.0
"""Seconds after which keys from a URL are fetched again, so that one that was withdrawn stops counting."""

PAUSE_SECONDS: Final = 10.0
"""Seconds between two fetches at least, however many tokens name a key that is not known."""

_TIMEOUT: Final = 5.0
_LARGEST: Final = 1024 * 1024
_DISCOVERY: Final = "/.well-known/openid-configuration"


class KeySet(Protocol):
    """The present keys of an issuer."""

    async def candidates(self, key_id: str) -> Sequence[VerifyingKey]:
        """Return the keys by which a token may be signed: the one that it names, or all if it names none.

        Raises:
            InvalidCredentialsError: there is none, or the keys cannot be had now.
        """

    async def close(self) -> None:
        """Disconnect."""


_FAMILIES: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""The algorithms of a type of key."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key that checks signatures."""

    key_id: str
    key: Any
    algorithms: tuple[str, ...]
    """Those of its type. A token may name any, because all of them need the private key."""


def read_keys(text: str | bytes) -> tuple[VerifyingKey, ...]:
    """Return the keys of a JSON Web Key Set that can check signatures. Others are left out.

    Raises:
        ValueError: it is none, or has no such key.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON Web Key Set: {error}") from None
    given = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(given, list):
        raise ValueError("is no JSON Web Key Set: it must be an object with a list of keys")  # noqa: TRY004 - of the text
    keys = tuple(key for one in given if isinstance(one, dict) and (key := _verifying_key(one)) is not None)
    if not keys:
        raise ValueError("is a JSON Web Key Set without a public key for signatures")
    return keys


def _verifying_key(document: dict[str, Any]) -> VerifyingKey | None:
    # A symmetric key can also sign, so it is in none of the families.
    family = _FAMILIES.get(str(document.get("kty")), ())
    named = document.get("alg")
    algorithms = tuple(one for one in family if named in {None, one})
    if not algorithms or document.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK.from_dict(document)
    except jwt.PyJWTError:
        return None  # its curve is unknown, or it is damaged
    return VerifyingKey(str(document.get("kid") or ""), key.key, algorithms)


def chosen(keys: Sequence[VerifyingKey], key_id: str) -> Sequence[VerifyingKey]:
    """Return the keys that a token may mean."""
    return [key for key in keys if key.key_id == key_id] if key_id else keys


class FileKeys:
    """The keys in a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no key set.
    """

    def __init__(self, file: str) -> None:
        self._file = ChangingFile(file, read_keys)

    async def candidates(self, key_id: str) -> Sequence[VerifyingKey]:
        """Return the keys of the file that a token may name."""
        if found := chosen(self._file.content, key_id):
            return found
        raise InvalidCredentialsError(f"its key {key_id!r} is not in the key set")

    async def close(self) -> None:
        """Do nothing: a file is open only while it is read."""


class FetchedKeys:
    """The keys at a URL.

    `url` is that of the key set, or, if `discovered`, of an issuer whose discovery document names it.
    """

    def __init__(
        self,
        url: str,
        *,
        discovered: bool = False,
        ca_file: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._discovered = discovered
        self._clock = clock
        verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._http = httpx.AsyncClient(verify=verify, timeout=_TIMEOUT, transport=transport, trust_env=False)
        self._keys: tuple[VerifyingKey, ...] = ()
        self._fetched: float | None = None
        self._tried: float | None = None
        self._problem = ""
        self._lock = asyncio.Lock()

    async def candidates(self, key_id: str) -> Sequence[VerifyingKey]:
        """Return the keys that a token may name. Old keys, and keys without the named one, are fetched again."""
        if self._is_old() or not chosen(self._keys, key_id):
            await self._fetch(key_id)
        if found := chosen(self._keys, key_id):
            return found
        why = f"; they cannot be fetched: {self._problem}" if self._problem else ""
        raise InvalidCredentialsError(f"its key {key_id!r} is not among the issuer's{why}")

    def _is_old(self) -> bool:
        return self._fetched is None or self._clock() - self._fetched >= FRESH_SECONDS

    async def _fetch(self, key_id: str) -> None:
        async with self._lock:
            if not self._is_old() and chosen(self._keys, key_id):
                return  # another request has fetched them meanwhile
            if self._tried is not None and self._clock() - self._tried < PAUSE_SECONDS:
                return
            self._tried = self._clock()
            try:
                url = await self._address() if self._discovered else self._url
                self._keys = read_keys(await self._get(url))
                self._fetched = self._clock()
                self._problem = ""
            except (httpx.HTTPError, ValueError) as error:
                # Keys that were fetched before still count: users stay signed in while an issuer is down.
                self._problem = str(error) or type(error).__name__
                _log.warning("authentication.keys_not_fetched", url=self._url, problem=self._problem)

    async def _address(self) -> str:
        document = orjson.loads(await self._get(self._url.rstrip("/") + _DISCOVERY))
        found = document.get("jwks_uri") if isinstance(document, dict) else None
        if not isinstance(found, str) or not found:
            raise ValueError("the issuer's discovery document has no jwks_uri")
        if document.get("issuer") != self._url:
            raise ValueError(f"the issuer's discovery document is of another issuer: {document.get('issuer')!r}")
        return found

    async def _get(self, url: str) -> bytes:
        async with self._http.stream("GET", url) as answer:
            answer.raise_for_status()
            content = b""
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > _LARGEST:
                    raise ValueError(f"{url} answers with more than {_LARGEST} bytes")
        return content

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


T = TypeVar("T")


class ChangingFile(Generic[T]):
    """The content of a file. If a changed file cannot be read, the earlier content stays, and the reason is logged.

    Raises:
        OSError: the file cannot be read now.
        ValueError: from `read`.
    """

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self._path = Path(path)
        self._read = read
        self._seen = stamp_of([self._path])
        self._content = read(self._path.read_text("utf-8"))

    @property
    def content(self) -> T:
        """The present content of the file."""
        try:
            stamp = stamp_of([self._path])
            if stamp != self._seen:
                self._seen = stamp
                self._content = self._read(self._path.read_text("utf-8"))
                _log.info("authentication.file_read", file=str(self._path))
        except (OSError, ValueError) as error:
            _log.warning("authentication.file_unreadable", file=str(self._path), problem=str(error))
        return self._content


class InvalidCredentialsError(Exception):
    """Credentials that do not count. The text gives the reason, without the credentials themselves."""


class UnknownYetError(Exception):
    """Credentials cannot be checked yet. The text has the reason."""
