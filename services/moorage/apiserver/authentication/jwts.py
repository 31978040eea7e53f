"""JSON Web Tokens: what they say before they are checked, and what they say once they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import jwt

from moorage.apiserver.authentication.key_sets import VerifyingKey
from moorage.apiserver.authentication.refusals import InvalidCredentialsError

_PARTS: Final = 3
_LONGEST: Final = 16_384
"""Characters of the longest token that is looked at."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a token says of itself. Nothing of it counts until the token is checked."""

    issuer: str
    key_id: str
    kind: str
    """The header `typ`."""


def claimed(token: str) -> Claimed | None:
    """Return what a token says of itself. None if it is no JWT."""
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
