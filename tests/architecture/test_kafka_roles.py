"""The permissions in Kafka agree with the services, the topics and the documentation."""

from __future__ import annotations

import re

from tests.architecture.files import ROOT

from moorage.cli.contract.kafka_roles import participants, roles
from moorage.runtime.kafka.admin.acls import AclOperation, AclResource
from moorage_schemas.topics import CONDITION_REPORTS, TOPICS, Topic

ROLES = {role.name: role for role in roles()}
SERVICES = [participant.name for participant in participants()]


def test_the_table_of_roles_is_the_roles() -> None:
    section = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Kafka authentication")[2]
    section = section.partition("**Refusals.**")[0].partition("| role |")[2]
    rows = re.findall(r"^\| ([a-z-]+) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    assert rows == [(role.name, _listed(role.reads), _listed(role.writes)) for role in ROLES.values()]


def _listed(topics: tuple[Topic, ...]) -> str:
    return ", ".join(topic.short for topic in topics) or "none"


def test_what_the_table_of_topics_says_of_writers_is_what_roles_may_write() -> None:
    everybody = {"all services", "the timer's issuer", "third parties, gateway"}
    for topic in TOPICS:
        writers = {name for name, role in ROLES.items() if topic in role.writes}
        if topic.writer not in everybody:
            assert writers == {topic.writer}, topic.short
    outside = [name for name in ROLES if name not in SERVICES]
    assert {topic for name in outside for topic in ROLES[name].writes} == {CONDITION_REPORTS}


def test_every_service_has_a_role_and_what_it_does_outside_nobody_may() -> None:
    assert set(SERVICES) < set(ROLES)
    for name in SERVICES:
        entries = list(ROLES[name].entries("moorage"))
        assert {entry.principal for entry in entries} == {f"User:moorage-{name}"}
        assert not {entry.operation for entry in entries} & {
            *(AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.ALTER_CONFIGS),
            *(AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE),
        }
        named = {entry.name for entry in entries if entry.resource is AclResource.TRANSACTIONAL_ID}
        assert named in (set(), {f"moorage.{name}."}, {"moorage.gateway"})


def test_no_role_has_rights_outside_its_fleet() -> None:
    for role in ROLES.values():
        for entry in role.entries("some-fleet", "User:CN="):
            assert entry.principal == f"User:CN={role.name}"
            assert entry.resource is AclResource.CLUSTER or entry.name.startswith("some-fleet.")
