"""Errors of a kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
TOO_MANY_REQUESTS: Final = 429
INTERNAL_ERROR: Final = 500

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
"""The cause of a 403 for what is created in a namespace that is being deleted. No permission is missing."""

_BUDGET: Final = "DisruptionBudget"


class ApiError(Exception):
    """A refused request.

    Attributes:
        reason: the `reason` of the `Status`, such as `AlreadyExists`. Empty if there is none.
        retry_after: seconds after which the server accepts the request again. None if it names none.
        causes: the types of the causes in the details.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes

    @classmethod
    def of(cls, status: int, body: Any, retry_after: str | None) -> ApiError:
        """Return the error of an answer.

        Args:
            status: the HTTP status.
            body: the decoded body; anything else than a `Status` is shown as it is.
            retry_after: the header `Retry-After` in seconds.
        """
        found: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        details = found.get("details")
        causes = details.get("causes") or () if isinstance(details, Mapping) else ()
        return cls(
            status,
            str(found.get("reason") or ""),
            str(found.get("message") or ("" if found else body or "")),
            _seconds(retry_after),
            tuple(str(one.get("reason") or "") for one in causes if isinstance(one, Mapping)),
        )

    @property
    def is_held_by_budget(self) -> bool:
        """Whether a PodDisruptionBudget refuses an eviction now."""
        return self.status == TOO_MANY_REQUESTS and _BUDGET in self.causes

    @property
    def is_refusal(self) -> bool:
        """Whether the server refuses because of the number of requests, so that fewer have to be sent."""
        return self.is_overload and self.status != INTERNAL_ERROR

    @property
    def is_overload(self) -> bool:
        """Whether the server has too much to do now, so that the same request may succeed later."""
        return (self.status == TOO_MANY_REQUESTS and not self.is_held_by_budget) or self.status in {
            INTERNAL_ERROR,
            503,
            504,
        }


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:  # a date, which a kube-apiserver does not send
        return None
