"""Gives Kafka's users their passwords, by SCRAM-SHA-512.

aiokafka 0.14 does not have two requests about users. `AlterUserScramCredentials` (key 51) gives users a password, and
`DescribeUserScramCredentials` (key 50) lists the users of a broker. A password never leaves the client: the broker gets
it salted and hashed.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactBytes, CompactString, Int8, Int16, Int32, Schema, TaggedFields
from typing_extensions import override

_TEXT: Final = CompactString("utf-8")
_SHA_512: Final = 2


class _AlterScramResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY: ClassVar[int] = 51
    API_VERSION: ClassVar[int] = 0
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(("user", _TEXT), ("error_code", Int16), ("error_message", _TEXT), ("tags", TaggedFields)),
        ),
        ("tags", TaggedFields),
    )

    @property
    def users(self) -> list[tuple[str, int, str | None]]:
        """The users, each with its error code and the broker's explanation."""
        return [(user, code, why) for user, code, why, _ in self.results]


class _AlterScram(RequestStruct):  # type: ignore[misc]  # as above
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY: ClassVar[int] = 51
    API_VERSION: ClassVar[int] = 0
    RESPONSE_TYPE: ClassVar[type[Response]] = _AlterScramResponse
    SCHEMA: ClassVar[Schema] = Schema(
        ("deletions", CompactArray(("name", _TEXT), ("mechanism", Int8), ("tags", TaggedFields))),
        (
            "upsertions",
            CompactArray(
                ("name", _TEXT),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class SetScramUsers(Request[_AlterScram]):  # type: ignore[misc]  # as above
    """Gives users a password by SCRAM-SHA-512.

    Args:
        users: for each user the iterations, the salt and the salted password.
    """

    API_KEY: ClassVar[int] = 51

    def __init__(self, users: Mapping[str, tuple[int, bytes, bytes]]) -> None:
        self._users = users

    @override
    def build(self, request_struct_class: type[_AlterScram]) -> Any:
        upsertions: list[Any] = [(name, _SHA_512, *secret, {}) for name, secret in self._users.items()]
        return request_struct_class([], upsertions, {})


class _DescribeScramResponse(Response):  # type: ignore[misc]  # as above
    API_KEY: ClassVar[int] = 50
    API_VERSION: ClassVar[int] = 0
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", _TEXT),
        (
            "results",
            CompactArray(
                ("user", _TEXT),
                ("error_code", Int16),
                ("error_message", _TEXT),
                ("credentials", CompactArray(("mechanism", Int8), ("iterations", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )

    @property
    def iterations(self) -> dict[str, int]:
        """The users that have a password by SCRAM-SHA-512, each with the iterations of its hash."""
        return {
            user: iterations
            for user, _, _, credentials, _ in self.results
            for mechanism, iterations, _ in credentials
            if mechanism == _SHA_512
        }


class _DescribeScram(RequestStruct):  # type: ignore[misc]  # as above
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY: ClassVar[int] = 50
    API_VERSION: ClassVar[int] = 0
    RESPONSE_TYPE: ClassVar[type[Response]] = _DescribeScramResponse
    SCHEMA: ClassVar[Schema] = Schema(
        ("users", CompactArray(("name", _TEXT), ("tags", TaggedFields))), ("tags", TaggedFields)
    )


class DescribeScramUsers(Request[_DescribeScram]):  # type: ignore[misc]  # as above
    """A request for all users that have a password."""

    API_KEY: ClassVar[int] = 50

    @override
    def build(self, request_struct_class: type[_DescribeScram]) -> Any:
        return request_struct_class(None, {})


_ITERATIONS: Final = 4096
"""The fewest that Kafka accepts. The passwords are random and long, so that more would protect nothing."""

_KNOWN_WITHIN: Final = 30.0
_POLL: Final = 0.03
"""Seconds between two questions whether the broker has learnt of the users. It learns of them within half a second."""


async def set_passwords(admin: AIOKafkaAdminClient, passwords: Mapping[str, str]) -> None:
    """Set the passwords of users. Former ones no longer count. Returns when a broker has stored them.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        TimeoutError: the broker has not stored them in time.
    """
    # The number identifies the broker's answer: it has stored these passwords when it returns this number.
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
    """Return the stored form of a password (RFC 5802): iterations, salt and salted password."""
    salt = secrets.token_bytes(24)
    return iterations, salt, hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations)
