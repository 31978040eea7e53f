"""A Kafka that asks who somebody is: each role may do what is its own, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.support.commands import moorage
from tests.support.secure_broker import ALLOWED_URLS, REAUTHENTICATED_MS, SecureBroker
from tests.support.waiting import until

from moorage.cli.contract import kafka_roles
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin import acls
from moorage.runtime.kafka.admin.acls import AclEntry, AclOperation, AclPattern, AclResource
from moorage.runtime.kafka.admin.scram_users import set_passwords
from moorage.runtime.kafka.admin.topics_admin import ensure_topics, try_on
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.kafka.clients.refusals import REFUSALS, NotAuthenticatedError, describe
from moorage.runtime.kafka.clients.security import security
from moorage.runtime.kafka.partition.partition_task import Phase
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.process.failures import EXIT_FAILED, RuntimeFailure
from moorage.runtime.process.health import HttpServer
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, taint_manager, timer
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetRef
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMERS,
    TOPICS,
    Topic,
)
from moorage_sdk.errors import Refusal, TransportError
from moorage_sdk.outbox import Report
from moorage_sdk.senders import KafkaSender
from moorage_sdk.settings import Connection
from moorage_sdk.sources import KafkaSource, Reset
from moorage_sdk.targets import Targets

pytestmark = pytest.mark.kafka

ADMIN = kafka_identities.ADMIN
ROLES = [role.name for role in kafka_roles.roles()]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kafka(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecureBroker]:
    secure = SecureBroker(tmp_path_factory.mktemp("secure"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", ALLOWED_URLS.format(secure.issuer.jwks.as_uri()))
        await secure.start()
    try:
        await _fill(secure.settings(ADMIN))
        yield secure
    finally:
        await secure.close()


async def _fill(settings: Settings) -> None:
    """Write a record into each topic, so that there is something to read."""
    async with _writing(settings) as producer:
        for topic in TOPICS:
            await _write(producer, topic)


@contextlib.asynccontextmanager
async def _writing(settings: Settings) -> AsyncIterator[AIOKafkaProducer]:
    # One that is idempotent could not even start as somebody who may write nothing.
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, **security(settings))
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


async def _write(producer: AIOKafkaProducer, topic: Topic) -> None:
    await producer.send_and_wait(topic.name(), key=b"key", value=b"{}", partition=0)


async def _may_write(settings: Settings, topics: tuple[Topic, ...]) -> dict[str, bool]:
    found = {}
    async with _writing(settings) as producer:
        for topic in topics:
            try:
                await _write(producer, topic)
                found[topic.short] = True
            except TopicAuthorizationFailedError as error:
                found[topic.short] = f"may not Write topic {topic.name()}: " not in describe(error, settings)
    return found


async def _may_read(settings: Settings, topics: tuple[Topic, ...]) -> dict[str, bool]:
    found = {}
    consumer = clients.table_consumer(settings, client_id="test")
    try:
        await consumer.start()
        for topic in topics:
            tp = TopicPartition(topic.name(), 0)
            try:
                await consumer._client._wait_on_metadata(tp.topic)  # `assign` would wait for a hidden topic in silence
                consumer.assign([tp])
                consumer.seek(tp, 0)
                async with asyncio.timeout(120):
                    await consumer.getone(tp)
                found[topic.short] = True
            except TopicAuthorizationFailedError as error:
                found[topic.short] = f"may not Read topic {topic.name()}: " not in describe(error, settings)
    finally:
        await consumer.stop()
    return found


@pytest.mark.parametrize("name", ROLES)
async def test_each_role_reads_and_writes_its_topics_and_no_others(kafka: SecureBroker, name: str) -> None:
    role = next(role for role in kafka_roles.roles() if role.name == name)
    settings = kafka.settings(name)
    assert await _may_read(settings, TOPICS) == {topic.short: topic in role.reads for topic in TOPICS}
    assert await _may_write(settings, TOPICS) == {topic.short: topic in role.writes for topic in TOPICS}


@pytest.mark.parametrize(
    ("name", "reads", "writes"),
    [
        ("probe", {RESOURCES: False, TAINTS: False}, {CONDITION_REPORTS: True, CONDITIONS: False, TAINTS: False}),
        ("deployer", {BINDINGS: True, RESOURCES: False}, {EVICTIONS: False, BINDINGS: False, CONDITION_REPORTS: True}),
        ("viewer", {TAINTS: True, RESOURCES: False}, {CONDITION_REPORTS: False, TAINTS: False}),
        ("operator", {RESOURCES: True}, {RESOURCES: False, CONDITION_REPORTS: False}),
        ("taint-manager", {CONDITIONS: True}, {TAINTS: True, PLACEMENTS: False, EVICTIONS: False}),
        ("placement", {TAINTS: True}, {BINDINGS: True, TAINTS: False, EVICTIONS: False}),
        ("query", {RESOURCES: True}, {CONDITION_REPORTS: False, RESOURCES: False}),
        ("gateway", {TAINTS: True}, {RESOURCES: True, TAINTS: False, EVICTIONS: False}),
        ("targets", {CONDITION_REPORTS: True}, {EVICTIONS: True, RESOURCES: False, BINDINGS: False, PLACEMENTS: False}),
    ],
)
async def test_what_matters_most_is_refused_whatever_the_classes_say(
    kafka: SecureBroker, name: str, reads: dict[Topic, bool], writes: dict[Topic, bool]
) -> None:
    settings = kafka.settings(name)
    assert await _may_read(settings, tuple(reads)) == {topic.short: may for topic, may in reads.items()}
    assert await _may_write(settings, tuple(writes)) == {topic.short: may for topic, may in writes.items()}


async def test_a_transactional_id_and_a_group_belong_to_one_service_and_its_chain(kafka: SecureBroker) -> None:
    settings = kafka.settings("timer")

    async def started(transactional_id: str) -> None:
        producer = PartitionProducer(settings, transactional_id=transactional_id)
        try:
            await producer.start()
        finally:
            await producer.close()

    await started("moorage.timer.0")
    await started("moorage.targets.0")  # it fences the chain
    for other in ("moorage.eviction.0", "moorage.gateway", "moorage.timers"):
        with pytest.raises(TransactionalIdAuthorizationFailed) as raised:
            await started(other)
        assert describe(raised.value, settings).startswith(
            f"User:moorage-timer may not Write transactional id {other}: "
        )
    offsets = Offsets(settings, name="test")
    try:
        await offsets.start()
        tps, patience = [TopicPartition(TIMERS.name(), 0)], asyncio.get_running_loop().time() + 60
        # The first question about any group makes Kafka create the topic of offsets.
        assert await try_on(lambda: offsets.committed("moorage.timer", tps), deadline=patience) == {}
        with pytest.raises(GroupAuthorizationFailedError):
            await offsets.committed("moorage.eviction", tps)
        assert not await try_on(lambda: offsets.has_members("moorage.targets"), deadline=patience)
        for other in ("moorage.eviction", "moorage.targeted"):
            with pytest.raises(GroupAuthorizationFailedError):
                await offsets.has_members(other)
    finally:
        await offsets.stop()


async def test_a_chain_and_its_services_take_over_from_each_other_with_their_own_users(kafka: SecureBroker) -> None:
    chain = kafka.settings("targets", reconcile_interval=0.5)
    made = [module.service(chain) for module in (condition_ingest, taint_manager, eviction, timer)]
    alone = kafka.settings("timer", reconcile_interval=0.5)
    partitions = chain.partitions
    async with Worker(timer.service(alone), alone, partitions=partitions) as first:
        await first.wait_ready()
        async with Worker(made, chain, partitions=partitions) as chained:
            await chained.wait_ready()  # it has fenced the service
            await first.stop()
            async with Worker(timer.service(alone), alone, partitions=partitions) as second:
                await until(lambda: _phases(second) == {Phase.WAITING}, message="a service works beside its chain")
                await chained.stop()
                await until(lambda: second.ready, message="the service did not take over from its chain")


def _phases(worker: Worker) -> set[Phase]:
    return {task.phase for task in worker.tasks.values()}


async def test_only_the_administrator_changes_permissions(kafka: SecureBroker) -> None:
    wish = {AclEntry("User:moorage-probe", AclResource.TOPIC, TAINTS.name(), AclPattern.LITERAL, AclOperation.WRITE)}
    for name in ("operator", "gateway"):
        settings = kafka.settings(name)
        with pytest.raises(ClusterAuthorizationFailedError) as raised:
            await acls.created(settings, wish)
        assert describe(raised.value, settings).startswith(f"User:moorage-{name} may not Describe or Alter the cluster")
    admin = kafka.settings(ADMIN)
    wanted = kafka_roles.entries("moorage")
    principals = {entry.principal for entry in wanted}
    assert await acls.listed(admin, principals) == wanted
    await acls.created(admin, wish | wanted)
    assert await acls.listed(admin, principals) == wanted | wish
    await acls.deleted(admin, wish)
    await until(_lists(admin, wanted))


def _lists(admin: Settings, wanted: set[AclEntry]) -> Any:
    async def lists() -> bool:
        return await acls.listed(admin, {entry.principal for entry in wanted}) == wanted

    return lists


async def test_topics_that_a_service_may_not_create_are_named(kafka: SecureBroker) -> None:
    settings = kafka.settings("timer", topic_prefix="moorage.other")
    with pytest.raises(
        RuntimeFailure, match=r"topic moorage\.other\..* does not exist, and User:moorage-timer may not"
    ):
        await ensure_topics(settings)
    with pytest.raises(RuntimeFailure, match=r"User:moorage-timer may not Describe topic elsewhere\."):
        await ensure_topics(kafka.settings("timer", topic_prefix="elsewhere"))
    assert len(await ensure_topics(kafka.settings("operator", topic_prefix="moorage.made"))) == len(TOPICS)


async def test_a_service_goes_on_by_itself_when_it_is_allowed_again(kafka: SecureBroker) -> None:
    admin = kafka.settings(ADMIN)
    (needed,) = {
        entry
        for entry in kafka_roles.entries("moorage")
        if (entry.principal, entry.name, entry.operation) == ("User:moorage-timer", TIMERS.name(), AclOperation.READ)
    }
    refused = f"User:moorage-timer may not Read topic {TIMERS.name()}: "
    settings = kafka.settings("timer", reconcile_interval=0.5)
    worker = Worker(timer.service(settings), settings, partitions=settings.partitions)
    async with worker:
        await worker.wait_ready()
        await acls.deleted(admin, {needed})
        await until(lambda: any(text.startswith(refused) for text in REFUSALS.current()), message="nothing was refused")
        await until(lambda: not worker.ready, message="the worker still calls itself ready")
        await acls.created(admin, {needed})
        await until(lambda: worker.ready, message="the worker did not go on")


async def test_a_wrong_password_is_told_at_once(kafka: SecureBroker) -> None:
    right = kafka.settings("probe")
    wrong = right.model_copy(
        update={"kafka_password_file": str(kafka_identities.password_file(kafka.identities, "timer"))}
    )
    with pytest.raises(NotAuthenticatedError, match="Kafka does not accept User:moorage-probe: Authentication failed"):
        async with _writing(wrong):
            pass
    gone = right.model_copy(update={"kafka_password_file": str(kafka.folder / "nowhere")})
    with pytest.raises(NotAuthenticatedError, match=r"moorage-probe has no password for Kafka: .*nowhere cannot"):
        async with _writing(gone):
            pass


async def test_a_service_that_is_not_accepted_ends_at_its_start_and_says_why(kafka: SecureBroker) -> None:
    settings = kafka.settings("timer")
    environment = {
        variable(field): value for field, value in kafka_identities.settings_of(kafka.identities, "timer").items()
    }
    environment |= {
        "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "MOORAGE_KAFKA_PASSWORD_FILE": str(kafka_identities.password_file(kafka.identities, "probe")),
        "MOORAGE_LOG_FORMAT": "json",
    }
    done = await moorage("run", "timer", env=environment)
    assert done.code == EXIT_FAILED, done.err
    assert '"problem":"Kafka does not accept User:moorage-timer: Authentication failed' in done.err


async def test_a_password_that_is_changed_on_disk_is_used_by_new_connections(kafka: SecureBroker) -> None:
    file = kafka_identities.password_file(kafka.identities, "viewer")
    before = file.read_text()
    settings = kafka.settings("viewer")
    assert await _may_read(settings, (TAINTS,)) == {"taints": True}
    await _set_password(kafka, "viewer", "another")
    with pytest.raises(NotAuthenticatedError, match="invalid credentials"):
        await _may_read(settings, (TAINTS,))
    file.write_text("another\n")
    assert await _may_read(settings, (TAINTS,)) == {"taints": True}
    await _set_password(kafka, "viewer", before.strip())
    file.write_text(before)
    assert await _may_read(settings, (TAINTS,)) == {"taints": True}


async def _set_password(kafka: SecureBroker, role: str, password: str) -> None:
    async with clients.administration(kafka.settings(ADMIN)) as admin:
        await set_passwords(admin, {kafka_identities.USERS + role: password})


async def test_a_certificate_says_who_somebody_is(kafka: SecureBroker) -> None:
    cert, key = kafka.authority.sign("moorage-probe")
    settings = kafka.by_certificate(cert, key)
    async with _writing(settings) as producer:
        await _write(producer, CONDITION_REPORTS)
        with pytest.raises(TopicAuthorizationFailedError):
            await _write(producer, TAINTS)
    old_cert, old_key = kafka.authority.sign("moorage-probe", expired=True, name="old")
    expired = kafka.by_certificate(old_cert, old_key)
    with pytest.raises(NotAuthenticatedError, match=r"Kafka does not accept .*certificate"):
        async with _writing(expired):
            pass
    for new, old in ((cert, old_cert), (key, old_key)):
        new.replace(old)
    async with _writing(expired) as producer:
        await _write(producer, CONDITION_REPORTS)


async def test_a_certificate_of_nobody_known_is_refused_on_both_sides(kafka: SecureBroker, tmp_path: Path) -> None:
    cert, key = kafka.authority.sign("moorage-deployer")
    stranger = kafka.by_certificate(cert, key).model_copy(update={"kafka_ca_file": str(_other_authority(tmp_path))})
    with pytest.raises(NotAuthenticatedError, match="the certificate of Kafka is not accepted: "):
        async with _writing(stranger):
            pass


def _other_authority(folder: Path) -> Path:
    from tests.support.certificates import Authority  # noqa: PLC0415 - one test needs it

    return Authority(folder / "other").certificate


async def test_plain_passwords_are_taken_over_tls(kafka: SecureBroker) -> None:
    settings = kafka.over_tls("PLAIN", kafka_username="moorage-probe", kafka_password="plain")  # noqa: S106 - a test's
    assert await _may_write(settings, (CONDITION_REPORTS, TAINTS)) == {"condition-reports": True, "taints": False}


async def test_a_token_says_who_somebody_is(kafka: SecureBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(kafka.issuer.token("moorage-probe"))
    settings = kafka.over_tls("OAUTHBEARER", kafka_oauth_token_file=str(file))
    assert await _may_write(settings, (CONDITION_REPORTS, TAINTS)) == {"condition-reports": True, "taints": False}
    for token in (kafka.issuer.token("moorage-probe", seconds=-60), "no.such.token"):
        file.write_text(token)
        with pytest.raises(NotAuthenticatedError, match=r"does not accept the subject of its token: .*invalid_token"):
            async with _writing(settings):
                pass
    file.write_text(kafka.issuer.token("moorage-probe"))
    async with _writing(settings) as producer:
        await _write(producer, CONDITION_REPORTS)


@contextlib.asynccontextmanager
async def _token_endpoint(kafka: SecureBroker, secret: Path) -> AsyncIterator[tuple[dict[str, Any], list[str]]]:
    """A server that gives tokens to `moorage-probe` for its secret, which is in a file.

    Yields:
        the settings of its client, and what it was asked for.
    """
    asked: list[str] = []

    async def give(request: Request) -> JSONResponse:
        asked.append((await request.body()).decode())
        if request.headers.get("authorization") != "Basic " + b64encode(b"moorage-probe:secret").decode():
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        return JSONResponse({"access_token": kafka.issuer.token("moorage-probe"), "expires_in": 300})

    server = HttpServer(Starlette(routes=[Route("/token", give, methods=["POST"])]), host="127.0.0.1", port=0)
    await server.start()
    try:
        settings = {
            "kafka_oauth_token_endpoint": f"http://127.0.0.1:{server.port}/token",
            "kafka_oauth_client_id": "moorage-probe",
            "kafka_oauth_client_secret_file": str(secret),
            "kafka_oauth_scope": "kafka",
        }
        yield settings, asked
    finally:
        await server.stop()


async def test_a_token_is_got_by_client_credentials(kafka: SecureBroker, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    async with _token_endpoint(kafka, secret) as (given, asked):
        settings = kafka.over_tls("OAUTHBEARER", **given)
        assert await _may_write(settings, (CONDITION_REPORTS, TAINTS)) == {"condition-reports": True, "taints": False}
        assert asked == ["grant_type=client_credentials&scope=kafka"], "one token for all connections"
        secret.write_text("wrong")
        other = kafka.over_tls("OAUTHBEARER", **{**given, "kafka_oauth_scope": ""})
        with pytest.raises(NotAuthenticatedError, match=r"gave no token to moorage-probe: status 401 invalid_client"):
            async with _writing(other):
                pass


def _as_connection(settings: Settings, **more: Any) -> Connection:
    """The same connection for a program that is built with the SDK."""
    names = Connection.model_fields.keys() & type(settings).model_fields.keys()
    given = {name: getattr(settings, name) for name in names if name.startswith("kafka_")}
    given |= {"bootstrap_servers": settings.bootstrap_servers, "topic_prefix": settings.topic_prefix}
    return Connection(transport="kafka", **{**given, **more})


async def _says(connection: Connection, identity: str) -> None:
    """Send a report as a probe does."""
    event = ConditionReported(
        target=TargetRef.parse("Node/n1"), type="Fan", status=ConditionStatus.TRUE, observed_time=datetime.now(UTC)
    )
    sender = KafkaSender(connection, "probe/fan")
    try:
        await sender.start()
        report = Report(event, Meta(id=identity, source="probe/fan", type=CONDITION_REPORTS.event_type))
        assert await sender.send([report]) == []
    finally:
        await sender.stop()


async def test_programs_of_the_sdk_show_who_they_are_in_each_way(
    kafka: SecureBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "aiokafka")  # a command that ran here before may have made it silent
    token, secret, password = tmp_path / "token", tmp_path / "secret", tmp_path / "password"
    token.write_text(kafka.issuer.token("moorage-probe"))
    secret.write_text("secret")
    password.write_text("plain")
    async with _token_endpoint(kafka, secret) as (client, asked):
        ways = {
            "scram": _as_connection(kafka.settings("probe")),
            "certificate": _as_connection(kafka.by_certificate(*kafka.authority.sign("moorage-probe"))),
            "plain": _as_connection(
                kafka.over_tls("PLAIN", kafka_username="moorage-probe", kafka_password_file=str(password))
            ),
            "token": _as_connection(kafka.over_tls("OAUTHBEARER", kafka_oauth_token_file=str(token))),
            "client": _as_connection(kafka.over_tls("OAUTHBEARER", **client)),
        }
        for name, connection in ways.items():
            await _says(connection, name)
        assert asked == ["grant_type=client_credentials&scope=kafka"], "one token for all connections"

        # A wrong secret, and an authority that did not sign the broker's certificate, are told and tried again.
        secret.write_text("wrong")
        with pytest.raises(TransportError, match="Kafka does not answer"):
            await _says(ways["client"], "never")
        assert "gave no token to moorage-probe: 401 invalid_client" in caplog.text
        other = ways["token"].model_copy(update={"kafka_ca_file": str(_other_authority(tmp_path))})
        with pytest.raises(TransportError, match="Kafka does not answer"):
            await _says(other, "never")


async def test_connections_that_the_broker_ends_after_a_while_are_opened_anew(
    kafka: SecureBroker, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(kafka.issuer.token("moorage-probe"))
    settings = kafka.over_tls("OAUTHBEARER", kafka_oauth_token_file=str(file))
    written, ends = 0, time.monotonic() + 3.5 * REAUTHENTICATED_MS / 1000
    async with _writing(settings) as producer:
        connections = set()
        while time.monotonic() < ends:
            await _write(producer, CONDITION_REPORTS)
            connections |= {id(one) for one in producer.client._conns.values()}
            written += 1
            await asyncio.sleep(0.05)  # the broker ends a connection only at a request that comes too late
    assert written > 10
    assert len(connections) > 1, "the broker ended no connection, so that nothing was tried"


async def test_a_probe_and_a_deployer_of_the_sdk_need_no_more_than_their_roles(
    kafka: SecureBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def connection(role: str) -> Connection:
        settings = kafka.settings(role)
        identity: dict[str, Any] = kafka_identities.settings_of(kafka.identities, role)
        return Connection(transport="kafka", bootstrap_servers=settings.bootstrap_servers, **identity)

    refused: list[Refusal] = []
    sender = KafkaSender(connection("probe"), "probe/mine", refused.append)
    try:
        await sender.start()
        assert "may not read the topic dead-letters" in caplog.text
        target, now = TargetRef.parse("Node/n1"), datetime.now(UTC)
        event = ConditionReported(target=target, type="Ready", status="True", observed_time=now)
        meta = Meta(id="one", source="probe/mine", type=event.event_type, time=now)
        assert await sender.send([Report(event, meta)]) == []
    finally:
        await sender.stop()
    source = KafkaSource(connection("deployer"), Targets(None), "deployer/mine")
    try:
        assert isinstance(await anext(source.read()), Reset)
    finally:
        await source.stop()


@pytest.fixture(autouse=True)
def _nothing_refused_yet() -> Iterator[None]:
    REFUSALS._seen.clear()
    yield
    REFUSALS._seen.clear()
