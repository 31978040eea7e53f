"""ResourceBindings of a real Karmada control plane: how they are recorded, and how the API shows them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json
from tests.component.gateway.test_mirror import mirrored

from moorage_schemas.topics import RESOURCES

_KEY = "ResourceBinding/shop/web-deployment"
_PATH = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web-deployment"


def _binding(**spec: Any) -> Json:
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "clusters": [{"name": "m1", "replicas": 2}],
            **spec,
        },
        "status": {"aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}]},
    }


async def test_a_binding_is_shown_as_its_control_plane_has_it() -> None:
    gateway = Fixture()
    assert await mirrored(gateway, _binding(), source="bridge/karmada") == [(_KEY, "Written")]
    assert [write.key for write in gateway.log.written if write.topic is RESOURCES] == [_KEY]
    shown = await gateway.ok("GET", _PATH)
    assert (shown["spec"], shown["status"]) == (_binding()["spec"], _binding()["status"])
    await mirrored(gateway, deleted=[{"kind": "ResourceBinding", "namespace": "shop", "name": "web-deployment"}])
    assert (await gateway.call("GET", _PATH)).status_code == 404


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusters": "everywhere"}, "spec.clusters"),
        ({"replicas": "two"}, "spec.replicas"),
        ({"placement": {"spreadConstraints": [{"maxGroups": "x"}]}}, "spec.placement.spreadConstraints[0].maxGroups"),
    ],
)
async def test_one_that_cannot_be_read_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    gateway = Fixture()
    ((key, outcome),) = await mirrored(gateway, _binding(**spec))
    assert (key, outcome.partition(":")[0]) == (_KEY, "Refused")
    assert field in outcome
