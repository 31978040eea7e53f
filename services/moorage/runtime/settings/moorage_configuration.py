"""The settings that change decisions, as the fleet's `MoorageConfiguration` has them.

The settings of a process give the first content of that object. As soon as it exists, only the object counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import structlog
from typing_extensions import override

from moorage.decide.conditions.configuration_rules import (
    DURATIONS,
    RATES,
    UNLIMITED,
    source_text,
    validate_configuration,
)
from moorage.decide.conditions.heartbeats import parse_source_grace_periods
from moorage.decide.kubernetes.durations import duration_text, seconds_of
from moorage.runtime.service import GlobalView, Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.resources.configuration import FAILOVER, MoorageConfigurationSpec, SourceGracePeriod
from moorage_schemas.topics import CONFIGURATION, Topic

log = structlog.get_logger(__name__)

T = TypeVar("T")

DECIDING: Final[tuple[str, ...]] = tuple(MoorageConfigurationSpec.model_fields)
"""The settings that a configuration replaces, by their names. Its fields have the same names."""


def spec_of(settings: Settings) -> MoorageConfigurationSpec:
    """Return the content of a configuration that decides as a process with these settings would."""
    found: dict[str, Any] = {field: getattr(settings, field) for field in DECIDING}
    for field in DURATIONS:
        found[field] = duration_text(found[field])
    for field in RATES:
        found[field] = UNLIMITED if math.isinf(found[field]) else found[field]
    found["feature_gates"] = {FAILOVER: settings.failover}
    found["source_grace_periods"] = [
        SourceGracePeriod(
            kind=rule.kind.value,
            source=rule.source,
            grace_period=duration_text(rule.grace.total_seconds() if rule.grace is not None else 0.0),
        )
        for rule in parse_source_grace_periods(settings.source_grace_periods)
    ]
    return MoorageConfigurationSpec(**found)


def configured(settings: Settings, spec: MoorageConfigurationSpec) -> Settings:
    """Return the settings of a process with those of a configuration in their place.

    Raises:
        ValueError: the configuration breaks a rule. The gateway admits none that does.
    """
    if errors := validate_configuration(spec):
        raise ValueError("; ".join(map(str, errors)))
    found: dict[str, Any] = {field: getattr(spec, field) for field in DECIDING}
    for field in DURATIONS:
        found[field] = seconds_of(found[field])
    for field in RATES:
        found[field] = float(found[field])
    found["feature_gates"] = ",".join(f"{name}=true" for name, on in spec.feature_gates.items() if on)
    found["source_grace_periods"] = ",".join(map(source_text, spec.source_grace_periods))
    return settings.model_copy(update=found)


def overruled(settings: Settings, spec: MoorageConfigurationSpec) -> list[str]:
    """Return the fields of a configuration that differ from a process's settings.

    Settings with their defaults are left out, because they state nothing.
    """
    own, plain = spec_of(settings), MoorageConfigurationSpec()
    return [
        str(MoorageConfigurationSpec.model_fields[field].alias)
        for field in DECIDING
        if _meant(own, field) not in (_meant(plain, field), _meant(spec, field))
    ]


def _meant(spec: MoorageConfigurationSpec, field: str) -> object:
    """Return the meaning of a field, so that `60s` and `1m` are the same."""
    value = getattr(spec, field)
    if field in DURATIONS:
        return seconds_of(value)
    if field in RATES:
        return float(value)
    if field == "source_grace_periods":
        return [(entry.kind, entry.source, seconds_of(entry.grace_period)) for entry in value]
    return {FAILOVER: False, **value} if field == "feature_gates" else value


class Configuration:
    """The settings that a service of a process decides by: the configuration, or its own settings without one.

    All partitions share it. It changes only when a record is folded in, so it is constant within one call of the
    service.

    Args:
        service: the name of the service, for the log.
    """

    def __init__(self, settings: Settings, service: str = "") -> None:
        self.settings = self._own = settings
        """The settings to decide by. Another object after each change."""

        self.generation = 0
        """The generation of the configuration; 0 while there is none."""

        self.cause: Meta | None = None
        """The attributes of the last change; None before the first one."""

        self._service = service
        self._uid = ""
        self._logged = False
        self._fresh = False

    def is_fresh(self) -> bool:
        """Return whether it has changed since the last call."""
        fresh, self._fresh = self._fresh, False
        return fresh

    def fold(self, record: Input) -> None:
        """Fold in a record of the configuration. One that is not newer changes nothing.

        Raises:
            ValueError: the configuration breaks a rule. The former one stays.
        """
        event = record.event if isinstance(record.event, ConfigurationChanged) else None
        if event is None:
            self.settings, self.generation, self._uid = self._own, 0, ""
        elif event.uid == self._uid and event.generation <= self.generation:
            return
        else:
            self.settings = configured(self._own, event.spec)
            self.generation, self._uid = event.generation, event.uid
            fields = overruled(self._own, event.spec)
            if fields and not self._logged:
                self._logged = True
                log.warning("configuration.overrules_settings", service=self._service, fields=fields)
        self.cause = record.meta
        self._fresh = True


class Derived(Generic[T]):
    """A value that follows from the settings, made again when they have changed."""

    def __init__(self, configuration: Configuration, make: Callable[[Settings], T]) -> None:
        self.configuration = configuration
        self._make = make
        self._settings = configuration.settings
        self._value = make(self._settings)

    @property
    def value(self) -> T:
        """The value that follows from the present settings. The same object until they change."""
        if self._settings is not self.configuration.settings:
            self._settings = self.configuration.settings
            value = self._make(self._settings)
            if value != self._value:
                self._value = value
        return self._value


class ConfiguredView(GlobalView):
    """The view of a service that follows the configuration. Subclasses have more parts.

    Args:
        configuration: the settings to decide by; None for a view that does not follow them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.configuration = configuration

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        return topic is CONFIGURATION

    @override
    def apply(self, record: Input) -> None:
        if record.topic is CONFIGURATION and self.configuration is not None:
            self.configuration.fold(record)

    @override
    def changed(self) -> Iterable[int] | None:
        return None if self.configuration is not None and self.configuration.is_fresh() else ()


def configuration_of(view: GlobalView | None) -> Configuration | None:
    """Return the configuration that a view follows; None when it follows none."""
    return view.configuration if isinstance(view, ConfiguredView) else None
