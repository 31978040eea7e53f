"""Types of settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from moorage.decide.kubernetes.durations import seconds_of


def _seconds(value: object) -> object:
    """Return `40s`, `5m` or `1m30s` as seconds. Other values are left for pydantic to validate."""
    seconds = seconds_of(value.strip()) if isinstance(value, str) else None
    return value if seconds is None else seconds


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]
"""Seconds, or a duration in the form of Kubernetes' flags, such as `40s`."""


def names_in(text: str) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
