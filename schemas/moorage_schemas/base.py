"""What every model of the contract has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from moorage_schemas.times import format_time, parse_time


class Model(BaseModel):
    """A frozen record with camelCase names on the wire; unknown fields are refused by name."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


class OpenModel(Model):
    """A part of a resource: fields that Moorage does not use are kept as they came."""

    model_config = ConfigDict(extra="allow")


Timestamp = Annotated[
    AwareDatetime,
    BeforeValidator(parse_time),
    PlainSerializer(format_time, return_type=str, when_used="json"),
]
"""An instant in UTC; RFC 3339 with microseconds and `Z` on the wire."""
