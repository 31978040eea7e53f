"""Keys, tokens and key sets for tests."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://issuer.example"
AUDIENCE = "moorage"

_MAKERS = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


class Issuer:
    """Signs JWTs with one key.

    Args:
        algorithm: by which it signs.
        key_id: the name of its key.
    """

    def __init__(self, algorithm: str = "ES256", key_id: str = "first") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self.key: Any = _MAKERS[algorithm]()

    @property
    def public(self) -> dict[str, Any]:
        """Its public key as a JSON Web Key."""
        shown = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.key.public_key(), as_dict=True)
        shown.pop("key_ops", None)
        return {**shown, "kid": self.key_id, "alg": self.algorithm, "use": "sig"}

    @property
    def key_set(self) -> str:
        """A JSON Web Key Set with its public key."""
        return json.dumps({"keys": [self.public]})

    def token(self, name: str = "ann", *, now: dt.datetime | None = None, **claims: Any) -> str:
        """Return a token for a user. A claim that is None is left out."""
        now = now or dt.datetime.now(dt.UTC)
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": name, "exp": now + dt.timedelta(minutes=5), **claims}
        kept = {claim: value for claim, value in said.items() if value is not None}
        return jwt.encode(kept, self.key, algorithm=self.algorithm, headers={"kid": self.key_id})

    @property
    def pem(self) -> bytes:
        """Its private key as a PEM file."""
        return bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    @property
    def public_pem(self) -> bytes:
        """Its public key as a PEM file."""
        return bytes(
            self.key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )


def written(folder: Path, name: str, content: str | bytes) -> str:
    """Write a file, and return its path."""
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(file)
