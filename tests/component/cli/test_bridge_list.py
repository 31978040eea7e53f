"""`moorage bridge list` with a gateway in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tests.component.cli.fake_gateway import FakeGateway, Run, said

from moorage_schemas.times import format_time

PATH = "/v1/clusters"
HOME = {"name": "home", "source": "bridge/ocm", "clusterUID": "", "targets": 3, "workloads": 0}
EAST = {"name": "east", "source": "bridge/east", "clusterUID": "c1", "targets": 2, "workloads": 40}


def test_the_clusters_are_listed(gateway: FakeGateway, run: Run) -> None:
    heard = format_time(datetime.now(UTC) - timedelta(minutes=5, seconds=1))
    gateway.objects[PATH] = {"items": [HOME, {**EAST, "lastHeardTime": heard}]}
    code, out, _ = said(run("bridge", "list"))
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["CLUSTER", "BRIDGE", "TARGETS", "WORKLOADS", "LAST-HEARD", "CLUSTER-UID"],
        ["home", "bridge/ocm", "3", "0", "<unknown>", "<unknown>"],
        ["east", "bridge/east", "2", "40", "5m1s", "c1"],
    ]
    assert json.loads(said(run("bridge", "list", "-o", "json"))[1]) == gateway.objects[PATH]
    assert said(run("bridge", "list", "-o", "yaml"))[1].startswith("items:\n")


def test_that_there_are_none_is_said(gateway: FakeGateway, run: Run) -> None:
    gateway.objects[PATH] = {"items": []}
    assert said(run("bridge", "list")) == (0, "No clusters are mirrored\n", "")


def test_an_unknown_format_is_refused(gateway: FakeGateway, run: Run) -> None:
    code, _, error = said(run("bridge", "list", "-o", "csv"))
    assert (code, gateway.requests) == (2, [])
    assert "--output: invalid value 'csv': must be one of table, json, yaml" in error


def test_a_cluster_is_listed_alone_or_is_not_there(gateway: FakeGateway, run: Run) -> None:
    gateway.objects[PATH] = {"items": [HOME, EAST]}
    code, out, _ = said(run("bridge", "list", "--fleet-cluster", "east"))
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["CLUSTER", "east"])
    assert json.loads(said(run("bridge", "list", "-o", "json", "--fleet-cluster=east"))[1]) == {"items": [EAST]}
    for name in ("west", "home"):
        assert said(run("bridge", "list", "--fleet-cluster", name)) == (
            1,
            "",
            f'Error from server (NotFound): clusters.moorage.io "{name}" not found\n',
        )
