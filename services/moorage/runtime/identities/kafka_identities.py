"""The users of a Kafka on this machine: each has a password that was made here, in a file of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from moorage.runtime.process.shared_files import write_whole

USERS: Final = "moorage-"
"""The prefix of the users' names."""

ADMIN: Final = "admin"
"""The superuser of the brokers. Only the program that starts the broker uses it."""

BROKER: Final = "broker"
"""The brokers themselves."""

_FOLDER: Final = "kafka-identities"
_BITS: Final = 32


def folder_in(state: Path) -> Path:
    """Return the folder of the passwords in a state folder."""
    return state / _FOLDER


def password_file(folder: Path, role: str) -> Path:
    """Return the file with the password of a role's user."""
    return folder / f"{role}.password"


def ensure(folder: Path, roles: Iterable[str], *, mode: int = 0o600) -> dict[str, str]:
    """Create the missing passwords. Only this user can enter the folder.

    Args:
        folder: the folder of the passwords.
        roles: the roles that need one.
        mode: the permissions of the files for other places, such as a container.

    Returns:
        The password of each role.

    Raises:
        OSError: the folder or a file cannot be read or written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return {role: _password(password_file(folder, role), mode) for role in roles}


def _password(file: Path, mode: int) -> str:
    try:
        found = file.read_text("ascii").strip()
    except FileNotFoundError:
        found = ""
    if not found:
        found = secrets.token_urlsafe(_BITS)
        write_whole(file, f"{found}\n".encode(), mode=mode)
    file.chmod(mode)
    return found


def login_file(folder: Path) -> Path:
    """Return the login file of separate brokers, with their own user and the first users."""
    return folder / "kafka.jaas"


def write_login(folder: Path, passwords: Mapping[str, str], *, mode: int = 0o600) -> None:
    """Write the login configuration (JAAS) of brokers that are not started by Moorage.

    On the listeners `setup` and `controller` it has two users with a plain password (PLAIN): the brokers' own, and the
    administrator, who sets the passwords of all others. Everywhere else users have SCRAM.

    Args:
        folder: the folder of the passwords.
        passwords: those of `ADMIN` and `BROKER`.
        mode: as for `ensure`.
    """
    login = "org.apache.kafka.common.security"
    own = f'username="{USERS}{BROKER}" password="{passwords[BROKER]}"'
    users = " ".join(f'user_{USERS}{role}="{passwords[role]}"' for role in (BROKER, ADMIN))
    plain = f"  {login}.plain.PlainLoginModule required {own} {users};"
    scram = f"  {login}.scram.ScramLoginModule required;"
    sections = {"setup.KafkaServer": plain, "controller.KafkaServer": plain, "KafkaServer": scram}
    text = "".join(f"{name} {{\n{module}\n}};\n" for name, module in sections.items())
    write_whole(login_file(folder), text.encode(), mode=mode)


def settings_of(folder: Path, role: str) -> dict[str, str]:
    """Return the settings of a client that is this role: fields of `Settings` with their values."""
    return {
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": "SCRAM-SHA-512",
        "kafka_username": USERS + role,
        "kafka_password_file": str(password_file(folder, role)),
    }
