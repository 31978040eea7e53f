"""Short hashes that are safe in names and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def document_hash(document: Mapping[str, Any]) -> str:
    """Hash a part of an object to ten letters and digits. The order of its keys has no effect."""
    return letters_of(orjson.dumps(document, option=orjson.OPT_SORT_KEYS), _LENGTH)


def letters_of(data: bytes, length: int) -> str:
    """Hash data to letters and digits that cannot form words. Kubernetes uses the same alphabet for generated names."""
    number = int.from_bytes(hashlib.blake2b(data, digest_size=16).digest(), "big")
    letters = []
    for _ in range(length):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


def uid_of(*parts: object) -> str:
    """Return a uid that follows from its parts, in the form of a UUID. Different parts give different uids."""
    text = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
