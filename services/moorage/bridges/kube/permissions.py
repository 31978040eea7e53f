"""Missing permissions of a bridge, in the words of a role: which verb of which resource.

Missing permissions are logged, and shown on the readiness page while they are missed. Requests are repeated, so that a
bridge goes on by itself when its role permits them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_SHOWN: Final = 120.0
"""Seconds for which a refusal is shown. What lasts is refused again within that time."""

_LOGGED: Final = 60.0
"""Seconds after which a refusal that lasts is logged again."""

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_CORE: Final = 2  # parts of a path before the namespace: api/v1
_OF_GROUPS: Final = 3  # apis/GROUP/VERSION


@dataclass(frozen=True, slots=True)
class ClusterPermission:
    """The permission that a request needs.

    Attributes:
        verb: as roles name it.
        resource: with its subresource, as roles name it, or the path of what is no resource.
        group: of the API. Empty for that of Kubernetes' core.
        namespace: in which. Empty for all, or if the resource has none.
    """

    verb: str
    resource: str
    group: str
    namespace: str

    @classmethod
    def of(cls, method: str, path: str, params: Mapping[str, str] | None = None) -> ClusterPermission:
        """Return what a request needs: for an object or a list, or for a path such as `/readyz`.

        Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
        """
        parts = path.strip("/").split("/")
        if parts[0] not in {"api", "apis"}:
            return cls(method.lower(), path, "", "")
        is_core = parts[0] == "api"
        group, rest = ("", parts[_OF_CORE:]) if is_core else (parts[1], parts[_OF_GROUPS:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:  # noqa: PLR2004 - otherwise it is about the namespace itself
            namespace, rest = rest[1], rest[2:]
        resource, name, subresource = [*rest, "", ""][:3]
        if method == "GET":
            verb = "get" if name else "watch" if (params or {}).get("watch") == "true" else "list"
        else:
            verb = _VERBS[method]
        return cls(verb, f"{resource}/{subresource}" if subresource else resource, group, namespace)

    @property
    def kind(self) -> tuple[str, str, str]:
        """The verb, the resource and its group: requests of one kind take equally long."""
        return self.verb, self.resource, self.group

    def __str__(self) -> str:
        if self.resource.startswith("/"):
            return f"{self.verb} {self.resource}"
        resource, slash, subresource = self.resource.partition("/")
        named = f"{resource}.{self.group}" if self.group else resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {named}{slash}{subresource}{where}"


class MissingPermissions:
    """Recent requests that were refused for want of a permission.

    Args:
        now: returns seconds that only grow.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[ClusterPermission, tuple[float, str]] = {}
        self._logged: dict[ClusterPermission, float] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def note(self, needed: ClusterPermission, why: str) -> None:
        """Note a refusal, and log it unless that was done a moment ago."""
        now = self._now()
        self._seen[needed] = now, why
        if now - self._logged.get(needed, -_LOGGED) >= _LOGGED:
            self._logged[needed] = now
            _log.error("bridge.not_permitted", permission=str(needed), why=why)

    def permitted(self, used: ClusterPermission) -> None:
        """Note that something is permitted."""
        if self._seen.pop(used, None) is not None:
            self._logged.pop(used, None)
            _log.info("bridge.permitted", permission=str(used))

    def current(self) -> list[str]:
        """Return the refusals that last, each with the words of the server."""
        now = self._now()
        self._seen = {one: (seen, why) for one, (seen, why) in self._seen.items() if now - seen < _SHOWN}
        self._logged = {one: logged for one, logged in self._logged.items() if one in self._seen}
        return sorted(f"{one}: {why}" for one, (_, why) in self._seen.items())
