"""Base classes and types that all models of the contract share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from moorage_schemas.times import format_time, parse_time


class Model(BaseModel):
    """A frozen record with camelCase names on the wire. Unknown fields are refused by name."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class OpenModel(Model):
    """A part of a resource. Fields that Moorage does not use are kept unchanged."""

    model_config = ConfigDict(extra="allow")


Timestamp = Annotated[
    AwareDatetime,
    BeforeValidator(parse_time),
    PlainSerializer(format_time, return_type=str, when_used="json"),
]
"""An instant in UTC. On the wire it is RFC 3339 text with microseconds and `Z`."""
