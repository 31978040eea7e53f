"""Keys that the processes of a fleet share, derived from the service accounts' signing key."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_BYTES = 32


def derived_key(key_file: str, purpose: bytes) -> bytes:
    """Return the key for a purpose. That of another purpose says nothing about it.

    Args:
        key_file: the signing key.
        purpose: its name, which is part of the key.

    Raises:
        OSError: the file cannot be read.
    """
    secret = Path(key_file).read_bytes().strip()
    return HKDF(hashes.SHA256(), _BYTES, salt=None, info=purpose).derive(secret)
