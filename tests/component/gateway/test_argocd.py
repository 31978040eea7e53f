"""The page about Argo CD, held to the objects that its generator reads.

The generator is `clusterDecisionResource` of Argo CD's ApplicationSets. It lists the resources that a ConfigMap names,
by a label selector, in the namespace of the ApplicationSet. From the status of each it takes a list, and from each item
of the list a key, which is the name of one of Argo CD's clusters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from tests.component.gateway.double import NOW, Fixture
from tests.support import console

from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS

PAGE = (Path(__file__).parents[3] / "docs" / "argocd.md").read_text("utf-8")
FILES = {title: yaml.safe_load("\n".join(lines)) for _, title, lines in console.blocks(PAGE, "yaml")}
LABEL = "cluster.open-cluster-management.io"


async def generated(gateway: Fixture, config: dict[str, Any], namespace: str, labels: dict[str, str]) -> list[str]:
    """Return the names of clusters for which the generator makes parameters."""
    selector = quote(",".join(f"{key}={value}" for key, value in labels.items()))
    path = f"/apis/{config['apiVersion']}/namespaces/{namespace}/{config['kind']}?labelSelector={selector}"
    found = []
    for item in (await gateway.ok("GET", path))["items"]:
        found += [one[config["matchKey"]] for one in item["status"][config["statusListKey"]]]
    return sorted(found)


async def test_the_generator_finds_the_clusters_of_a_placement_and_of_a_group() -> None:
    gateway = Fixture()
    config, application_set = FILES["placement-decisions.yaml"], FILES["menu.yaml"]
    generator = application_set["spec"]["generators"][0]["clusterDecisionResource"]
    labels = generator["labelSelector"]["matchLabels"]
    namespace, placement = config["metadata"]["namespace"], labels[f"{LABEL}/placement"]
    owner = WorkloadRef(kind="Placement", namespace=namespace, name=placement)
    for number, clusters in enumerate((("alder", "birch"), ("cedar", "maple"))):
        page = WorkloadRef(kind="PlacementDecision", namespace=namespace, name=f"{placement}-decision-{number + 1}")
        event = WorkloadPlaced(
            workload=page,
            uid="p",
            owner=owner,
            owner_uid="p",
            generation=1,
            state=PlacementState.PLACED,
            decided_time=NOW,
            clusters=clusters,
            added=clusters,
            labels={f"{LABEL}/placement": placement, f"{LABEL}/decision-group-index": str(number)},
        )
        gateway.log.append(PLACEMENTS, page.key, owner.key, event)
    assert generator["configMapRef"] == config["metadata"]["name"]
    assert application_set["metadata"]["namespace"] == namespace
    assert await generated(gateway, config["data"], namespace, labels) == ["alder", "birch", "cedar", "maple"]
    assert await generated(gateway, config["data"], namespace, FILES["canary.yaml"]["matchLabels"]) == [
        "alder",
        "birch",
    ]
