"""The drills of docs/backup.md on a real Kafka. Every command of the page runs here."""

from __future__ import annotations

import base64
import gzip
import os
import re
import shlex
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import commands, console
from tests.support.brokers import Broker
from tests.support.commands import Done
from tests.support.forks import ROOT
from tests.support.live import Live, running
from tests.support.toys import write_raw
from tests.support.waiting import until

from moorage.cli.backup import fleet_reader
from moorage.cli.backup.fleet_file import Begin, End, FileWriter
from moorage.cli.backup.fleet_reader import ExportReader
from moorage.cli.backup.fleet_writer import FleetWriter, RestoreError, check_unused
from moorage.cli.backup.restore_plan import RestorePlan
from moorage.cli.backup.saved_record import SavedRecord
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import EVICTIONS, RESOURCES, TAINTS, TIMERS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PATIENCE = 25
"""Seconds for which the pods tolerate the taint."""

FLEET = [
    *(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name}},
            "status": {"allocatable": {"cpu": "8", "pods": "110"}},
        }
        for name in ("n1", "n2")
    ),
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "c", "image": "web"}],
                    "tolerations": [
                        {"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}
                    ],
                },
            },
        },
    },
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"word": "hidden"}},
]


class Drill:
    """Runs commands of the page on a broker, and notes them."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self.ran: set[str] = set()

    async def run(self, prefix: str, command: str, code: int = 0, **more: str) -> Done:
        """Run a command as the page shows it. Files are in the folder of the test."""
        self.ran.add(command)
        _, *words = [self.path(word) for word in shlex.split(command)]
        env = {
            "MOORAGE_BOOTSTRAP_SERVERS": self._bootstrap,
            "MOORAGE_TOPIC_PREFIX": prefix,
            "MOORAGE_STATE_DIR": str(self._folder / "state"),
            **more,
        }
        done = await commands.moorage(*words, env=env)
        assert done.code == code, f"{command}: {done.code}: {done.out}{done.err}"
        return done

    def path(self, word: str) -> str:
        return str(self._folder / word) + "/" * word.endswith("/") if word.startswith("fleet") else word


async def table(settings: Settings, topic: Any) -> dict[str, Mapping[str, Any]]:
    """The last event of each key of a topic, as JSON."""
    found: dict[str, Mapping[str, Any]] = {}
    async with ExportReader(settings) as reader:
        async for _, records in reader.records(await reader.cut(), (topic,)):
            for record in records:
                if record.value is not None:
                    found[record.name] = yaml.safe_load(record.value)
    return found


def check_manifests(folder: Path) -> None:
    """Check the declared objects: a file for each kind in its order, and the taints that a person has set."""
    files = sorted(folder.glob("*.yaml"))
    assert [path.name.partition("-")[0] for path in files] == [f"{number:02}" for number in range(len(files))]
    found = [one for path in files for one in yaml.safe_load_all(path.read_text())]
    assert {(one["kind"], one["metadata"]["name"]) for one in found} >= {("Node", "n2"), ("Deployment", "web")}
    (tainted,) = (one["spec"]["taints"] for one in found if one["metadata"]["name"] == "n2")
    assert [(one["key"], one["effect"]) for one in tainted] == [("bad", "NoExecute")]


def check_deadlines(open_: Mapping[str, Any], evicted: Mapping[str, Any]) -> None:
    """Check that nothing left before its deadline, which counts from the time of the taint."""
    for key, one in open_.items():
        deadline = datetime.fromisoformat(one["deadline"])
        gone = datetime.fromisoformat(evicted[key]["requestedTime"])
        assert gone >= deadline
        assert evicted[key]["generation"] == one["generation"]
        added = datetime.fromisoformat(one["taints"][0]["timeAdded"])
        assert deadline == added + timedelta(seconds=PATIENCE)


async def test_a_fleet_is_exported_destroyed_and_restored(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    """With another prefix and number of partitions. Everything that was decided stays, and deadlines come on time."""
    drill, other = Drill(broker.bootstrap, tmp_path), f"{topic_prefix}-other"
    before = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix)
    after = before.model_copy(update={"topic_prefix": other})
    async with running(broker.bootstrap, topic_prefix, tmp_path / "one") as live:
        await live.here("apply", "-f", "-", text=yaml.safe_dump_all(FLEET))
        await until(lambda: placed(live))
        await live.here("taint", "node", "n2", "bad=x:NoExecute")
        await until(lambda: scheduled(live))
        declared = await drill.run(topic_prefix, "moorage export -o fleet/")
        assert "left out: 1 Secrets" in declared.err
        await drill.run(topic_prefix, "moorage export --state -o fleet-state.yaml.gz")
        refused = await drill.run(topic_prefix, "moorage restore fleet-state.yaml.gz", code=1)
        assert "has" in refused.err
        assert "Stop all services and the gateway" in refused.err
    kept = {topic.short: await table(before, topic) for topic in (TAINTS, TIMERS, EVICTIONS)}
    check_manifests(tmp_path / "fleet")
    state = gzip.decompress((tmp_path / "fleet-state.yaml.gz").read_bytes())
    assert b"Deployment//web" in state or b"Deployment/default/web" in state
    assert b"Secret/" not in state
    assert base64.b64encode(b"hidden") not in state
    not_empty = await drill.run(topic_prefix, "moorage restore fleet-state.yaml.gz", code=1)
    assert "is not empty" in not_empty.err
    dry = await drill.run(other, "moorage restore --dry-run fleet-state.yaml.gz")
    assert "valid (dry run)" in dry.out
    await drill.run(other, "moorage restore fleet-state.yaml.gz", MOORAGE_PARTITIONS="5")
    assert {topic.short: await table(after, topic) for topic in (TAINTS, TIMERS, EVICTIONS)} == kept
    again = await drill.run(other, "moorage restore fleet-state.yaml.gz", code=1)
    assert "is not empty" in again.err

    async with running(broker.bootstrap, other, tmp_path / "two") as live:
        await until(lambda: completed(live), 120, "the evictions were not completed")
        uids = {key: one["object"]["metadata"]["uid"] for key, one in (await table(after, RESOURCES)).items()}
    evicted = await table(after, EVICTIONS)
    check_deadlines(kept["evictions"], evicted)
    assert (
        uids.items()
        >= {
            key: one["object"]["metadata"]["uid"]
            for key, one in (await table(before, RESOURCES)).items()
            if one["object"]["kind"] in {"Node", "Deployment"}
        }.items()
    )
    await drill.run(topic_prefix, "moorage restore --replace --paused fleet-state.yaml.gz")
    assert {topic.short: await table(before, topic) for topic in (TAINTS, TIMERS, EVICTIONS)} == kept
    assert "EvictionPause//restore" in await table(before, RESOURCES)
    async with running(broker.bootstrap, topic_prefix, tmp_path / "three") as live:
        await until(lambda: held(live), 120, "the evictions were not held")
        assert "restore" in (await live.here("resume", "evictions")).out
        await until(lambda: completed(live), 120, "the evictions were not completed")
    await drill.run(other, "moorage topics list")
    await drill.run(other, "moorage topics plan", MOORAGE_PARTITIONS="5")
    shown = {step.command for step in console.steps((ROOT / "docs/backup.md").read_text("utf-8")) if step.command}
    assert shown <= drill.ran, "every command of the page is tried"


async def test_exported_manifests_declare_the_same_elsewhere(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    """Applied to another fleet and exported again, they are the same: also the times of taints that people have set."""
    drill, other = Drill(broker.bootstrap, tmp_path), f"{topic_prefix}-other"
    async with running(broker.bootstrap, topic_prefix, tmp_path / "one") as live:
        await live.here("apply", "-f", "-", text=yaml.safe_dump_all(FLEET))
        await live.here("taint", "node", "n2", "bad=x:NoExecute")
        await drill.run(topic_prefix, "moorage export -o fleet/")
    async with running(broker.bootstrap, other, tmp_path / "two") as live:
        await live.here("apply", "-f", drill.path("fleet/"))
        await drill.run(other, "moorage export -o fleet-again/")
    first, second = (
        {path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted((tmp_path / name).glob("*.yaml"))}
        for name in ("fleet", "fleet-again")
    )
    assert first == second
    assert "n2" in {one["metadata"]["name"] for found in first.values() for one in found}


async def test_the_embedded_kafka_is_restored_with_the_commands_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs/backup.md").read_text("utf-8")
    (local, timed) = (block.strip() for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    up, restore, unset, down = local.splitlines()
    with FileWriter(f"{tmp_path}/fleet-state.yaml.gz") as file:
        file.write(Begin("2026-01-01T00:00:00Z", "1", "moorage", 3, quiet=True, secrets=False).document())
        file.write(End({}, {}).document())
    script = f"{up}\n{restore}\nmoorage topics list\n{timed}\n{unset}\n{down}\nls fleet-20*.yaml.gz"
    env = {
        "MOORAGE_STATE_DIR": str(tmp_path / "state"),
        "MOORAGE_TOPIC_PREFIX": "moorage",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = await commands.program("bash", "-euc", f"cd {shlex.quote(str(tmp_path))}\n{script}", env=env)
    assert done.code == 0, done.out + done.err
    assert "0 restored to moorage" in done.out
    assert re.search(r"^moorage\.taints\.v1 +3 ", done.out, re.MULTILINE), (
        "as many partitions as the exported fleet had"
    )
    assert "kafka stopped" in done.out + done.err
    assert re.search(r"^fleet-20\S+\.yaml\.gz$", done.out, re.MULTILINE)


async def placed(live: Live) -> bool:
    pods = (await live.here("get", "pods", "-o", "json")).json["items"]
    return sum(one["spec"].get("nodeName") == "n2" for one in pods) >= 1 and len(pods) == 4


async def scheduled(live: Live) -> bool:
    found = (await live.here("get", "evictions", "-o", "json")).json["items"]
    return bool(found) and all(one["status"]["state"] == "Scheduled" for one in found)


async def completed(live: Live) -> bool:
    found = (await live.here("get", "evictions", "-o", "json")).json["items"]
    return bool(found) and all(one["status"]["state"] == "Completed" for one in found)


async def held(live: Live) -> bool:
    found = (await live.here("get", "evictions", "-o", "json")).json["items"]
    return bool(found) and all(one["status"].get("heldBy") == ["EvictionPause/restore"] for one in found)


def empty_plan(writer: FleetWriter) -> RestorePlan:
    return RestorePlan({}, before=3, now=writer.partitions)


def records() -> list[SavedRecord]:
    """A declared object in each partition."""
    head = (
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"test"),
        ("ce_type", RESOURCES.event_type.encode()),
    )
    value = b'{"object":{"kind":"Node","metadata":{"name":"n"}},"version":1}'
    return [SavedRecord(RESOURCES, part, 0, 1, f"Node//n{part}".encode(), value, head) for part in range(3)]


async def test_an_export_of_a_busy_fleet_has_what_its_decisions_rest_on(broker: Broker, topic_prefix: str) -> None:
    """A state record may rest on a record after the end that was noted for its topic a moment before."""
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=1)
    await ensure_topics(settings)
    first, second = (one._replace(partition=0) for one in records()[:2])
    await write_raw(settings, RESOURCES, first.key, first.value, first.headers)
    headers = {"ce_source": b"moorage/taint-manager", "ce_type": TAINTS.event_type.encode()}
    state = [(name, headers.get(name, value)) for name, value in first.headers]
    await write_raw(settings, TAINTS, b"Node/n1", b"{}", [*state, ("moorage-sources", b"resources=2")])
    async with ExportReader(settings) as reader:
        cut = await reader.cut()
        await write_raw(settings, RESOURCES, second.key, second.value, second.headers)
        found = [(topic, len(some)) async for topic, some in reader.records(cut) if some]
        assert found == [(RESOURCES, 1), (TAINTS, 1)]
        rest = [record.key async for some in reader.rest(cut) for record in some]
    assert rest == [second.key]
    assert cut.positions["taint-manager"]["resources"] == {0: 2}


async def test_a_fleet_in_which_a_transaction_is_open_is_not_quiet(
    broker: Broker, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_reader, "_QUIET_WITHIN", 0.0)
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=3)
    async with FleetWriter(settings) as writer:
        await writer.write(records(), empty_plan(writer), lambda _: None)
        async with ExportReader(settings) as reader:
            assert not (await reader.cut()).quiet
    async with ExportReader(settings) as reader:
        assert (await reader.cut()).quiet


async def test_a_restore_that_ends_in_the_middle_has_written_nothing(broker: Broker, topic_prefix: str) -> None:
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=3)

    async with FleetWriter(settings) as writer:
        assert await writer.write(records(), empty_plan(writer), lambda _: None) == 3
    await check_unused(settings)
    async with FleetWriter(settings) as writer:
        plan = empty_plan(writer)
        await writer.write(records(), plan, lambda _: None)
        await writer.commit(plan.positions())
    assert len(await table(settings, RESOURCES)) == 3
    with pytest.raises(RestoreError, match="not empty"):
        await check_unused(settings)


async def test_a_restore_gives_up_when_another_program_writes(broker: Broker, topic_prefix: str) -> None:
    settings = Settings(bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=3)
    await ensure_topics(settings)
    async with FleetWriter(settings) as writer:
        plan = empty_plan(writer)
        await writer.write(records(), plan, lambda _: None)
        await write_raw(settings, TAINTS, b"Node/x", b"{}", [])
        with pytest.raises(RestoreError, match="another program has written"):
            await writer.commit(plan.positions())
    assert not await table(settings, RESOURCES)
