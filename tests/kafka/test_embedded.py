"""The embedded broker is a real one, keeps its data, and neither outlives nor surprises its owner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import requests
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.support.brokers import EmbeddedBroker
from tests.support.waiting import until

from moorage.runtime.embedded import EmbeddedKafka, EmbeddedKafkaError, answers, broker, data_folder, jars
from moorage.runtime.embedded.data_folder import DataDir
from moorage.runtime.settings.environment import KAFKA_VERSION

pytestmark = pytest.mark.kafka


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def make_topic(bootstrap: str, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()


async def write(bootstrap: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first records, read committed; fails when there are fewer."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer, asyncio.timeout(120):
        return [(await consumer.getone()).value for _ in range(count)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedKafka]:
    """A broker that the tests which do not end it share."""
    # A folder whose name has a space, a comma and a non-ASCII letter: Kafka may split it, Java garble it.
    async with EmbeddedKafka(tmp_path_factory.mktemp("kä fka,x")) as kafka:
        yield kafka


async def test_starts_on_an_empty_folder_and_answers_on_loopback_only(running: EmbeddedKafka) -> None:
    assert await answers(running.bootstrap)
    assert running.bootstrap == f"127.0.0.1:{running.port}"
    admin = AIOKafkaAdminClient(bootstrap_servers=running.bootstrap)
    await admin.start()
    try:
        (node,) = (await admin.describe_cluster())["brokers"]
    finally:
        await admin.close()
    assert (node["host"], node["port"]) == ("127.0.0.1", running.port)
    with socket.socket() as elsewhere:  # the same port is free on the other addresses
        elsewhere.bind(("127.0.0.2" if sys.platform == "linux" else "", running.port))


async def test_topics_are_not_made_by_using_them(running: EmbeddedKafka, topic_prefix: str) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=running.bootstrap)
    async with consumer:
        await consumer._client.set_topics([f"{topic_prefix}misspelt"])  # asks for its metadata
        assert f"{topic_prefix}misspelt" not in await consumer.topics()


async def test_transactions_and_groups(running: EmbeddedKafka, topic_prefix: str) -> None:
    source, sink, group = f"{topic_prefix}in", f"{topic_prefix}out", f"{topic_prefix}group"
    await make_topic(running.bootstrap, source)
    await make_topic(running.bootstrap, sink)
    await write(running.bootstrap, source, b"1", b"2")
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=running.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=1000,  # the broker allows short ones
        heartbeat_interval_ms=300,
    )
    producer = AIOKafkaProducer(bootstrap_servers=running.bootstrap, transactional_id=f"{topic_prefix}p")
    async with consumer, producer, asyncio.timeout(120):
        first = await consumer.getone()
        await producer.begin_transaction()
        await producer.send_and_wait(sink, b"aborted", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(sink, b"committed", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition(source, 0): first.offset + 1}, group)
        # The group sees the offset when the transaction's marker is written, a moment after the commit.
        async with asyncio.timeout(120):
            while (committed := await consumer.committed(TopicPartition(source, 0))) is None:  # noqa: ASYNC110 - a poll
                await asyncio.sleep(0.05)
    assert await read(running.bootstrap, sink, 1) == [b"committed"]
    assert committed == 1


async def test_a_second_broker_on_the_same_folder_is_refused_with_the_pid_named(running: EmbeddedKafka) -> None:
    second = EmbeddedKafka(running.data_dir)
    with pytest.raises(EmbeddedKafkaError) as refused:
        await second.start()
    assert f"process {running.pid} " in refused.value.why
    assert running.bootstrap in refused.value.action
    assert await answers(running.bootstrap), "the first one must not suffer"


async def test_a_port_that_is_taken_during_the_start_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        def any_port(besides: int = 0) -> int:
            """The first port of a controller is taken."""
            port = int(taken.getsockname()[1]) if besides and len(given) == 1 else free_port(besides)
            given.append(port)
            return port

        free_port = broker._any_port
        monkeypatch.setattr(broker, "_any_port", any_port)
        async with EmbeddedKafka(tmp_path / "kafka") as kafka:
            assert await answers(kafka.bootstrap)
            assert [kafka.port, taken.getsockname()[1]] == given[:2], "the clients' port is kept"
            assert len(given) == 3


async def test_a_taken_port_is_a_clear_error(running: EmbeddedKafka, tmp_path: Path) -> None:
    second = EmbeddedKafka(tmp_path / "other", port=running.port)
    with pytest.raises(EmbeddedKafkaError, match=f"cannot listen on port {running.port}"):
        await second.start()
    assert not DataDir(second.data_dir).held(), "the folder must be free again"


async def test_a_broker_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    broken = EmbeddedKafka(tmp_path / "kafka", settings={"log.retention.ms": "forever"})
    with pytest.raises(EmbeddedKafkaError, match=r"did not start") as failed:
        await broken.start()
    assert "log.retention.ms" in failed.value.log
    assert str(tmp_path) in failed.value.action


async def test_data_and_port_survive_stop_kill_and_restart(own_broker: EmbeddedBroker, topic_prefix: str) -> None:
    topic, before = f"{topic_prefix}kept", own_broker.bootstrap
    await make_topic(before, topic)
    await write(before, topic, b"1")
    await own_broker.restart()
    await write(before, topic, b"2")
    await own_broker.kill()
    assert not own_broker.kafka.running
    await own_broker.start()
    assert await read(before, topic, 2) == [b"1", b"2"]
    await own_broker.stop()
    async with EmbeddedKafka(own_broker.kafka.data_dir) as another_run:
        assert another_run.bootstrap == before
        assert await read(before, topic, 2) == [b"1", b"2"]


async def test_a_paused_broker_does_not_answer_and_goes_on(own_broker: EmbeddedBroker) -> None:
    async def is_silent() -> bool:
        return not await answers(own_broker.bootstrap, patience=0.5)

    await own_broker.pause()
    await until(is_silent, message="a paused broker answers")  # its threads come to a halt one after another
    await own_broker.resume()
    assert await answers(own_broker.bootstrap, patience=20.0)
    await own_broker.pause()
    await own_broker.stop()  # a frozen process can be stopped, too
    assert not own_broker.kafka.running


_OWNER = """
import asyncio, os, sys, time
from pathlib import Path
from moorage.runtime.embedded import EmbeddedKafka

async def main():
    kafka = EmbeddedKafka(Path(sys.argv[1]))
    await kafka.start()
    if sys.argv[2] == "forked" and os.fork() == 0:
        time.sleep(60)  # holds a copy of the pipe that the supervisor listens to
        os._exit(0)
    print(kafka.port, kafka.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
async def test_it_ends_when_its_owner_is_killed(tmp_path: Path, how: str) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _OWNER, str(tmp_path / "kafka"), how),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert owner.stdout is not None
        port, pid = map(int, (await owner.stdout.readline()).split())
        assert listens(port)
        owner.kill()
        await until(lambda: not listens(port))
        await until(lambda: not alive(pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(owner.pid, signal.SIGKILL)
        await owner.wait()
    async with EmbeddedKafka(tmp_path / "kafka") as after:
        assert after.port == port


async def test_the_next_start_waits_for_an_orphan_that_is_still_stopping(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _OWNER, str(tmp_path / "kafka"), "alone"), stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    port, pid = map(int, (await owner.stdout.readline()).split())
    owner.kill()
    await owner.wait()
    async with EmbeddedKafka(tmp_path / "kafka") as after:
        assert (after.port, alive(pid)) == (port, False)


if sys.platform == "linux":  # PR_SET_PDEATHSIG is Linux's own

    async def test_it_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
        async with EmbeddedKafka(tmp_path / "kafka") as kafka:
            assert kafka._process is not None
            kafka._process.kill()
            await until(lambda: not listens(kafka.port))


async def test_a_later_start_resolves_nothing(
    running: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.running, "the jars are in the cache by now"

    def resolve(*_arguments: object) -> list[Path]:
        raise AssertionError("resolved again")

    monkeypatch.setattr(jars, "_resolve", resolve)
    async with EmbeddedKafka(tmp_path / "kafka") as kafka:
        assert await answers(kafka.bootstrap)


def test_without_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.REPOSITORY_VARIABLE, "http://127.0.0.1:9/maven2")  # the discard port: nobody listens
    with pytest.raises(EmbeddedKafkaError, match="could not be downloaded") as failed:
        jars.prepare(root=tmp_path, fast_start=False)
    assert jars.REPOSITORY_VARIABLE in failed.value.action
    assert "MOORAGE_BOOTSTRAP_SERVERS" in failed.value.action


def test_without_the_certificates_of_a_proxy_the_error_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> list[Path]:
        raise requests.exceptions.SSLError("self-signed certificate in certificate chain")

    monkeypatch.setattr(jars, "_resolve", refuse)
    with pytest.raises(EmbeddedKafkaError, match="could not be downloaded") as failed:
        jars.prepare(root=tmp_path, fast_start=False)
    assert "set REQUESTS_CA_BUNDLE" in failed.value.action
    assert jars.REPOSITORY_VARIABLE in failed.value.action


def test_without_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_JAVA", str(tmp_path / "java"))
    with pytest.raises(EmbeddedKafkaError, match="no Java") as failed:
        jars.prepare(root=tmp_path, fast_start=False)
    assert "MOORAGE_JAVA" in failed.value.why


@pytest.mark.usefixtures("running")
def test_a_damaged_cache_is_noticed_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = jars.prepare()
    paths = [Path(path) for path in good.class_path.split(os.pathsep)]
    home = next(parent for parent in paths[0].parents if parent.name == f"kafka-{KAFKA_VERSION}")
    copy = tmp_path / home.name
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("*.aot"))
    damaged = copy / paths[0].relative_to(home)
    damaged.write_bytes(damaged.read_bytes()[:1000])
    asked: list[str] = []

    def resolve(repository: Path, *_arguments: object) -> list[Path]:
        asked.append(str(repository))
        shutil.copyfile(paths[0], damaged)
        return [copy / path.relative_to(home) for path in paths]

    monkeypatch.setattr(jars, "_resolve", resolve)
    mended = jars.prepare(root=tmp_path, fast_start=False)
    assert len(mended.checkpoint) == len(good.checkpoint), "they differ in their timestamps only"
    assert asked == [str(copy / "repository")]
    jars.prepare(root=tmp_path, fast_start=False)
    assert len(asked) == 1, "mended once, then remembered"


def test_fetching_stops_between_two_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_remembered", lambda *_arguments: None)
    repository = data_folder.cache_dir() / f"kafka-{KAFKA_VERSION}" / "repository"
    shutil.copytree(repository, tmp_path / f"kafka-{KAFKA_VERSION}" / "repository")  # so nothing is fetched
    stop = threading.Event()
    stop.set()
    with pytest.raises(jars.Cancelled):
        jars.prepare(stop=stop, root=tmp_path)


async def test_a_full_disk_names_the_variable_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    monkeypatch.setattr("moorage.runtime.embedded.broker._ROOM_MB", 10**9)
    with pytest.raises(EmbeddedKafkaError, match="set MOORAGE_STATE_DIR to a folder on another disk"):
        await EmbeddedKafka(tmp_path / "kafka").start()
    assert (tmp_path / "kafka").stat().st_mode & 0o777 == 0o700
