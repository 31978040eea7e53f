"""Errors in the form of the Kubernetes API: a `Status` with reason, code, details and causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError

_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    421: "MisdirectedRequest",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_SHOWN = 256  # the number of characters of an invalid value that are shown


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a refusal: the field, the reason, and the message."""

    reason: str
    message: str
    field: str = ""

    def document(self) -> dict[str, str]:
        """Return the cause in the form that the API shows."""
        shown = {"reason": self.reason, "message": self.message}
        return {**shown, "field": self.field} if self.field else shown


class StatusError(Exception):
    """A failed request, with the contents of its `Status`."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = "",
        details: Mapping[str, Any] | None = None,
        causes: Iterable[Cause] = (),
        retry_after: int = 0,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = "" if reason is None else reason or _REASONS.get(code, "Unknown")
        """A word for programs. Empty if it was given as None, for the few errors to which Kubernetes gives none."""

        self.details = None if details is None else dict(details)
        """Names what the error is about. Empty details are shown as such, as Kubernetes shows them."""

        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.token = token
        """The value of `continue` with which a client may go on instead, of a list that it cannot continue."""

    def document(self) -> dict[str, Any]:
        """Return the `Status` object."""
        details = dict(self.details or {})
        if self.causes:
            details["causes"] = [cause.document() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            "code": self.code,
        }
        if details or self.details is not None:
            status["details"] = details
        return status


def bad_request(message: str, causes: Iterable[Cause] = ()) -> StatusError:
    """400: the request cannot be understood."""
    return StatusError(400, message, causes=causes)


def no_such_path() -> StatusError:
    """404: no resource is served there."""
    return StatusError(404, "the server could not find the requested resource", details={})


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404: there is no object with that name."""
    return StatusError(404, f'{_qualified(group, plural)} "{name}" not found', details=_details(group, plural, name))


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    """403: admission does not let an object be as it is wanted."""
    message = f'{_qualified(group, plural)} "{name}" is forbidden: {why}'
    return StatusError(403, message, details=_details(group, plural, name), causes=causes)


def already_exists(
    group: str, plural: str, name: str, *, generated: bool = False, deleted: bool = False
) -> StatusError:
    """409: an object with that name exists already.

    `generated`: whether the next attempt may get another name. `deleted`: whether that object is being deleted.
    """
    details, message = _details(group, plural, name), f'{_qualified(group, plural)} "{name}" already exists'
    if deleted:
        message = f"object is being deleted: {message}"
    if generated:
        details["retryAfterSeconds"] = 1
        message += ", the server was not able to generate a unique name for the object"
    return StatusError(409, message, reason="AlreadyExists", details=details)


def conflict(group: str, plural: str, name: str, why: str = "") -> StatusError:
    """409: the object is not the one that the request expects."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    return StatusError(
        409,
        f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {why}',
        reason="Conflict",
        details=_details(group, plural, name),
    )


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422: fields break rules. Each is a cause, and one that is found twice is given once."""
    errors = list({(error.path, error.kind, error.body): error for error in errors}.values())
    shown = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
    return StatusError(
        422,
        f'{kind + "." + group if group else kind} "{name}" is invalid: {shown}',
        reason="Invalid",
        details=_details(group, kind, name),
        causes=[Cause(error.kind.value, error.body, error.path) for error in errors],
    )


def too_large(what: str, limit: int) -> StatusError:
    """413: there are more bytes than allowed."""
    return StatusError(413, f"{what} is too large: it must have at most {limit} bytes")


def unavailable(message: str) -> StatusError:
    """503: the request cannot be served now."""
    return StatusError(503, message, retry_after=1)


def field_errors(error: ValidationError) -> list[FieldError]:
    """Return the errors of a pydantic model as field errors with path, value and rule."""
    found = []
    for item in error.errors(include_url=False):
        path = ""
        for part in item["loc"]:
            path = f"{path}[{part}]" if isinstance(part, int) else f"{path}.{part}" if path else str(part)
        if item["type"] == "missing":
            found.append(FieldError(path, ErrorKind.REQUIRED, "", ""))
        elif item["type"] == "extra_forbidden":
            found.append(FieldError(path, ErrorKind.FORBIDDEN, None, "unknown field"))
        elif item["type"] == "enum":
            rule = f"must be {item['ctx']['expected']}"
            found.append(FieldError(path, ErrorKind.NOT_SUPPORTED, shorten(item["input"]), rule))
        else:
            kind = ErrorKind.INVALID if item["type"] in _VALUE_ERRORS else ErrorKind.TYPE_INVALID
            message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            rule = message if message == item["msg"].removeprefix("Value error, ") else f"must be {message}"
            found.append(FieldError(path, kind, shorten(item["input"]), rule))
    return found


_VALUE_ERRORS = frozenset(
    {
        "value_error",
        "string_too_short",
        "string_too_long",
        "string_pattern_mismatch",
        "greater_than_equal",
        "timezone_aware",
    }
)


def shorten(value: object) -> object:
    """Shorten a value so that it can be shown in a message."""
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    text = repr(value)
    return value if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    found = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in found.items() if value}
