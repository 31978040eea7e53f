"""Signatures of webhooks, as https://www.standardwebhooks.com describes them, version 1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

PREFIX: Final = "whsec_"
"""What a secret begins with. The key follows in base64."""

_LEAST, _MOST = 24, 64  # bytes of a key


class SecretError(ValueError):
    """A secret cannot be used. The message does not contain it."""


def keys_of(text: str) -> tuple[bytes, ...]:
    """Return the keys in the content of a file of secrets: one a line, the newest first.

    Raises:
        SecretError: there is none, or a line is not a secret.
    """
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (secret := line.strip()) or secret.startswith("#"):
            continue
        if not secret.startswith(PREFIX):
            raise SecretError(f"line {number}: must begin with {PREFIX}")
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise SecretError(f"line {number}: must be base64 after {PREFIX}") from None
        if not _LEAST <= len(key) <= _MOST:
            raise SecretError(f"line {number}: must have {_LEAST} to {_MOST} bytes, not {len(key)}")
        keys.append(key)
    if not keys:
        raise SecretError("has no secret")
    return tuple(keys)


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: a signature by each key, so that a receiver may know any of them."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}" for key in keys)
