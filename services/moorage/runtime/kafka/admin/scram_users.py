"""Gives Kafka's users their passwords, by SCRAM-SHA-512."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code

from moorage.runtime.kafka.admin.scram_requests import DescribeScramUsers, SetScramUsers

_ITERATIONS: Final = 4096
"""The fewest that Kafka accepts. The passwords are random and long, so that more would protect nothing."""

_KNOWN_WITHIN: Final = 30.0
_POLL: Final = 0.03
"""Seconds between two questions whether the broker has learnt of the users. It learns of them within half a second."""


async def set_passwords(admin: AIOKafkaAdminClient, passwords: Mapping[str, str]) -> None:
    """Give users their passwords. Those that they had no longer count. Returns when a broker knows them.

    Args:
        admin: a connected client of somebody who may alter the cluster.
        passwords: the passwords, by user.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: the broker has not learnt of them in time.
    """
    # The number tells the broker's answers apart: it has learnt of these passwords when it names it.
    iterations = _ITERATIONS + secrets.randbelow(_ITERATIONS)
    made = {user: scram(password, iterations) for user, password in passwords.items()}
    # aiokafka's own method for a request to any broker, which passes it on; it has no public one.
    answer = await admin._send_to_controller(SetScramUsers(made))  # noqa: SLF001 - as above
    for user, code, why in answer.users:
        if code:
            raise for_code(code)(f"user {user}: {why or ''}")
    async with asyncio.timeout(_KNOWN_WITHIN):
        known: dict[str, int] = {}
        while any(known.get(user) != iterations for user in made):
            await asyncio.sleep(_POLL)
            known = (await admin._send_to_controller(DescribeScramUsers())).iterations  # noqa: SLF001 - as above


def scram(password: str, iterations: int) -> tuple[int, bytes, bytes]:
    """Return what a broker stores of a password (RFC 5802): iterations, salt and salted password."""
    salt = secrets.token_bytes(24)
    return iterations, salt, hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations)
