"""Writes to the Clusters of a control plane: their taints.

The reasons of events are those of Karmada's own controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from moorage.bridges.engine.cluster_events import NORMAL, WARNING, event
from moorage.bridges.engine.seen_target import identity_of, taints_of
from moorage.bridges.engine.taint_lists import TaintActs
from moorage.bridges.karmada.plane import CLUSTER, CLUSTERS, SeenMember
from moorage.bridges.kube.api_error import ApiError
from moorage.decide.kubernetes.object_texts import taint_text

JsonObject = dict[str, Any]


@dataclass(eq=False)
class MemberActs(TaintActs[SeenMember]):
    """The writer of taints to the Clusters of a control plane."""

    tell: Callable[[JsonObject], None]

    @override
    async def _write(self, target: SeenMember) -> None:
        try:
            await super()._write(target)
        except ApiError as error:
            self.tell(event(target.about, WARNING, "TaintClusterFailed", str(error)))
            raise

    @staticmethod
    @override
    def path(name: str) -> str:
        return f"{CLUSTERS}/{name}"

    @staticmethod
    @override
    def _read(found: JsonObject) -> SeenMember:
        return SeenMember.of({**found, "kind": CLUSTER})

    @override
    def _written(self, before: SeenMember, found: JsonObject) -> None:
        super()._written(before, found)
        taints = taints_of(found)
        if set(map(identity_of, taints)) != set(map(identity_of, before.taints)):
            self.tell(event(before.about, NORMAL, "TaintClusterSucceed", f"Its taints are {_text(taints)} now"))


def _text(taints: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(sorted(map(taint_text, taints))) or "none"
