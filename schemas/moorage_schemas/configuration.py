"""The configuration of the fleet, as the services read it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from moorage_schemas.base import Model
from moorage_schemas.resources.configuration import MoorageConfigurationSpec


class ConfigurationChanged(Model):
    """The present configuration. Topic `configuration`, keyed by its name.

    The gateway writes it in one transaction with the resource `MoorageConfiguration`. Services that do not read
    `resources` whole follow this topic, which has one record.
    """

    event_type: ClassVar[str] = "io.moorage.configuration.changed.v1"

    uid: str = ""
    generation: int = Field(ge=1)
    """`metadata.generation` of the resource. Every record that a service writes names the one that it decided by, as
    the CloudEvents extension attribute `configuration`."""

    spec: MoorageConfigurationSpec
