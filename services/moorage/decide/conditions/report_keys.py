"""The public keys of probes, and the signatures of their reports: Ed25519, and ECDSA with P-256 and SHA-256 (ES256)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

PublicKey = Ed25519PublicKey | ec.EllipticCurvePublicKey

RULE: Final = "must be a public key in PEM: Ed25519, or ECDSA with P-256"

_HALF: Final = 32  # bytes of each of the two numbers of an ES256 signature


@lru_cache(maxsize=1024)
def public_key(pem: str) -> PublicKey | None:
    """Return the key in a PEM text. None if it is of another kind, or none at all."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, Ed25519PublicKey):
        return key
    return key if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1) else None


@lru_cache(maxsize=512)  # a report is judged twice if tables have to be read first
def is_signed_by(pem: str, signature: bytes, signed: bytes) -> bool:
    """Return whether a signature over bytes is that of a key.

    Args:
        pem: the public key.
        signature: of Ed25519, or of ES256 as in JWS: the two numbers, of 32 bytes each.
        signed: what is signed.
    """
    key = public_key(pem)
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, signed)
        elif key is not None and len(signature) == 2 * _HALF:
            numbers = (int.from_bytes(signature[:_HALF]), int.from_bytes(signature[_HALF:]))
            key.verify(utils.encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True
