"""Errors of the SDK."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import ValidationError


class SdkError(Exception):
    """Something that the program cannot put right by trying again."""


class InvalidValueError(SdkError, ValueError):
    """A value that the gateway would refuse, or that has no meaning. It is refused before anything is sent.

    Args:
        field: the name of the value.
        value: the value.
        rule: what it must be, as text: `must …` or `expected …`.
    """

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f"{field}: invalid value {_shown(value)}: {rule}")
        self.field = field
        self.value = value


class SettingError(SdkError, ValueError):
    """A setting of the connection is wrong, or does not fit the others."""


class RecordError(SdkError):
    """A record of a topic that this version of the SDK cannot read."""


class TransportError(Exception):
    """Moorage cannot be reached, or does not take anything now. It is tried again.

    Args:
        message: what has happened.
        retry_after: seconds after which the other side asks to try again. None if it says nothing.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PartlySentError(TransportError):
    """Some of the reports were not taken now. Only those are to be sent again.

    Args:
        message: why.
        retry_after: seconds after which the other side asks to try again. None if it says nothing.
        again: the ids of the reports to send again.
        refused: those of the others that do not count.
    """

    def __init__(
        self, message: str, retry_after: float | None, *, again: Collection[str], refused: Sequence[Refusal]
    ) -> None:
        super().__init__(message, retry_after)
        self.again = frozenset(again)
        self.refused = tuple(refused)


class RefusedError(Exception):
    """Raised by a handler that will not carry out a decision. It is not called again for the same decision."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A report that does not count, and why."""

    id: str
    """The id of the report."""

    reason: str
    """The reason as one word, such as `UnknownTarget`."""

    message: str
    """The reason as text, with the field, its value and the rule."""

    subject: str = ""
    """The target, with the type of the condition if it is known: `Node/n1 Ready`."""

    is_ignored: bool = False
    """Whether the report is valid, and changes nothing because a newer one is known."""


_LONGEST = 100  # characters of a value in an error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def first_problem(error: ValidationError) -> InvalidValueError:
    """Return the first problem of a value that the contract refuses."""
    found = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(python_name(part) for part in found["loc"]) or "value"
    return InvalidValueError(field, found["input"], rule_of(found["msg"]))


def rule_of(message: str) -> str:
    """Return the rule of a message of pydantic."""
    return re.sub(r"^(Input|String|Value) should ", "must ", message.removeprefix("Value error, "))


def python_name(part: int | str) -> str:
    """Return the name of a field as an argument has it: `observedTime` is `observed_time`."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda upper: f"_{upper[0].lower()}", str(part))
