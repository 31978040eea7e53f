"""The configuration of the fleet at the gateway: its first content, and the settings that are in force."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from moorage.apiserver.admission.validation import feature_gates
from moorage.apiserver.authorization.report_guard import GRANT
from moorage.apiserver.kinds.fleet_settings import CONFIGURATION
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.runtime.settings.moorage_configuration import configured, overruled, spec_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.resource import resource_key
from moorage_schemas.resources.configuration import CONFIGURATION_KIND, CONFIGURATION_NAME, MoorageConfiguration

_log = structlog.get_logger(__name__)

KEY: Final = resource_key(CONFIGURATION_KIND, "", CONFIGURATION_NAME)
"""The record key of the configuration in `resources`."""

_OBJECT: Final = ObjectId.of(KEY)
_CALLER: Final = Caller("moorage/gateway")
_KIND: Final = ServedKind(CONFIGURATION, CONFIGURATION.versions[0])
_AGAIN: Final = 1.0  # seconds until a first content that could not be written is tried again


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a report."""

    clock_skew: timedelta = timedelta(seconds=30)
    max_bytes: int = 65_536


class Configured:
    """The settings that are in force: those of the configuration, or the process's own while there is none."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._own = self._settings = settings
        self._seen = 0
        self._told = False

    @property
    def settings(self) -> Settings:
        """The settings that are in force."""
        shown = self._store.get(_OBJECT)
        version = shown.version if shown is not None else 0
        if version != self._seen:
            self._seen = version
            self._settings = self._own if shown is None else self._read(shown.document)
        return self._settings

    @property
    def gates(self) -> FeatureGates:
        """The features that are switched on."""
        return feature_gates(self.settings)

    @property
    def limits(self) -> Limits:
        """The limits for a report."""
        settings = self.settings
        return Limits(timedelta(seconds=settings.clock_skew), settings.report_max_bytes)

    def _read(self, shown: Mapping[str, object]) -> Settings:
        try:
            spec = MoorageConfiguration.model_validate(shown).spec
            found = configured(self._own, spec)
        except ValueError as error:
            _log.exception("configuration.unreadable", service="gateway", problem=str(error))
            return self._settings
        fields = overruled(self._own, spec)
        if fields and not self._told:
            self._told = True
            _log.warning("configuration.overrules_settings", service="gateway", fields=fields)
        return found


class FirstContent:
    """Writes the first configuration of a fleet from the gateway's settings, and the roles that every fleet has."""

    def __init__(
        self, store: Store, writer: Writer, settings: Settings, roles: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._store = store
        self._writer = writer
        self._settings = settings
        self._roles = roles
        self.done = asyncio.Event()
        """Set when there is a configuration, and the roles."""

    async def run(self) -> None:
        """Return when there is a configuration, and the roles."""
        while not self._store.ready:
            await self._store.history.wait()
        await self._written("configuration", self._configuration)
        if self._roles is not None:
            await self._written("default_roles", self._roles)
        if not any(True for _ in self._store.all(GRANT)):
            _log.warning("probe_grants.none", consequence="users who may report may report anything, from any source")
        self.done.set()

    async def _configuration(self) -> None:
        if self._store.get(_OBJECT) is None:
            await self._writer.create(_KIND, first_configuration(self._settings), _CALLER)
            _log.info("configuration.created", name=CONFIGURATION_NAME)

    @staticmethod
    async def _written(what: str, write: Callable[[], Awaitable[None]]) -> None:
        """Return when something has been written, or was there."""
        said = ""
        while True:
            try:
                await write()
            except StatusError as error:  # another write came first, or nothing can be written now
                if error.message != said:
                    _log.warning(f"{what}.not_created", why=error.message)
                said = error.message
                await asyncio.sleep(_AGAIN)
            else:
                return


def first_configuration(settings: Settings) -> dict[str, object]:
    """Return the configuration that decides as these settings do."""
    return {
        "apiVersion": CONFIGURATION.api_versions[0],
        "kind": CONFIGURATION_KIND,
        "metadata": {"name": CONFIGURATION_NAME},
        "spec": spec_of(settings).model_dump(mode="json"),
    }
