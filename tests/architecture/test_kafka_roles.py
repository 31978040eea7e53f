"""The permissions in Kafka agree with the services, the topics and the documentation."""

from __future__ import annotations

import re

from tests.architecture.files import ROOT

from moorage.cli.contract.kafka_roles import participants, roles
from moorage.runtime.chains import CHAINS, chain_of
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
    everybody = {"all services", "all services, gateway", "the timer's issuer", "third parties, gateway"}
    for topic in TOPICS:
        writers = {name for name, role in ROLES.items() if topic in role.writes}
        if topic.writer not in everybody:
            assert writers == {topic.writer} | {chain_of(topic.writer) or topic.writer}, topic.short
    outside = [name for name in ROLES if name not in {*SERVICES, *CHAINS}]
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
        chain = chain_of(name)
        named = {entry.name for entry in entries if entry.resource is AclResource.TRANSACTIONAL_ID}
        assert named in (
            set(),
            {f"moorage.{name}."} | ({f"moorage.{chain}."} if chain else set()),
            {"moorage.gateway"},
        )


def test_a_chain_may_do_what_its_services_may_and_has_its_own_group_and_ids() -> None:
    for chain, services in CHAINS.items():
        mine = {(one.resource, one.name, one.operation) for one in ROLES[chain].entries("moorage")}
        theirs = {
            (one.resource, one.name, one.operation) for name in services for one in ROLES[name].entries("moorage")
        }
        group, read, describe = AclResource.GROUP, AclOperation.READ, AclOperation.DESCRIBE
        assert mine - theirs == {(group, f"moorage.{chain}", read)}
        # Read includes Describe: it looks up what it owns as one that reads.
        assert theirs - mine == {(group, f"moorage.{name}", describe) for name in (*services, chain)} & theirs


def test_a_service_of_a_chain_sees_whether_the_chain_runs_and_fences_its_tasks() -> None:
    for chain, services in CHAINS.items():
        for name, role in ROLES.items():
            entries = list(role.entries("moorage"))
            sees = [one.operation for one in entries if one.name in {f"moorage.{chain}", f"moorage.{chain}."}]
            if name in services:
                assert sees == [AclOperation.DESCRIBE, AclOperation.WRITE], name
            elif name == chain:
                assert sees == [AclOperation.READ, AclOperation.WRITE]
            else:
                assert sees == [], name


def test_no_role_has_rights_outside_its_fleet() -> None:
    for role in ROLES.values():
        for entry in role.entries("some-fleet", "User:CN="):
            assert entry.principal == f"User:CN={role.name}"
            assert entry.resource is AclResource.CLUSTER or entry.name.startswith("some-fleet.")
