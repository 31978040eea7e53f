"""The identities of a gateway on this machine: its administrator's token, its signing key, and keys derived from it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from moorage.runtime.process.shared_files import write_whole

ADMIN: Final = "moorage:admin"
"""The name of the administrator."""

METRICS: Final = "moorage:metrics"
"""The name of the user that reads metrics."""

_FOLDER: Final = "gateway-identities"
_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class GatewayIdentities:
    """The files of these identities."""

    folder: Path

    @classmethod
    def in_state(cls, state: Path) -> GatewayIdentities:
        """Return those in a state folder."""
        return cls(state / _FOLDER)

    @property
    def tokens(self) -> Path:
        """The token file of the gateway."""
        return self.folder / "tokens.csv"

    @property
    def admin_token(self) -> Path:
        """The administrator's token alone."""
        return self.folder / "admin.token"

    @property
    def metrics_token(self) -> Path:
        """A token that reads metrics and health alone, for Prometheus."""
        return self.folder / "metrics.token"

    @property
    def signing_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.folder / "service-accounts.key"

    @property
    def authority(self) -> Path:
        """The authority that clients of the gateway trust, if it serves HTTPS."""
        return self.folder / "ca.crt"

    def server_certificate(self, names: Sequence[str] = ()) -> tuple[Path, Path]:
        """Make a certificate for this machine, or replace one that ends soon. Return its file and its key's.

        Args:
            names: names and addresses of the server in addition to those of the loopback interface.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: a file is no certificate or key.
        """
        from moorage.runtime.identities.local_certificates import LocalAuthority  # noqa: PLC0415 - only with HTTPS, and slow to load

        local = LocalAuthority(self.folder, names)
        local.ensure()
        return local.server_certificate, local.server_key

    def ensure(self) -> None:
        """Create the missing files. Only this user can read the folder and the files. Existing files stay.

        Raises:
            OSError: the folder or a file cannot be read or written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        has_users = self.tokens.exists()
        for file, user, group in (
            (self.admin_token, ADMIN, "system:masters"),
            (self.metrics_token, METRICS, "system:monitoring"),
        ):
            if not (has_users and file.exists()):  # otherwise an operator may have changed the user
                self._add_user(file, user, group)
        if not self.signing_key.exists():
            write_whole(self.signing_key, _key(), mode=0o600)

    def _add_user(self, file: Path, user: str, group: str) -> None:
        """Add a user with the token in a file. If the file is lost, the user has another token from now on."""
        token = file.read_text("ascii").strip() if file.exists() else secrets.token_urlsafe(_BYTES)
        known = self.tokens.read_bytes() if self.tokens.exists() else b""
        write_whole(self.tokens, known + f'{token},{user},,"{group}"\n'.encode(), mode=0o600)
        write_whole(file, f"{token}\n".encode(), mode=0o600)


def _key() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - needed once in the life of a fleet
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def derived_key(key_file: str, purpose: bytes) -> bytes:
    """Return the key for a purpose. Keys of different purposes reveal nothing about each other.

    Raises:
        OSError: the file cannot be read.
    """
    secret = Path(key_file).read_bytes().strip()
    return HKDF(hashes.SHA256(), _BYTES, salt=None, info=purpose).derive(secret)
