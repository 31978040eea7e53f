"""Pods of controllers: numbers, names, objects."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.kubernetes.names import check_dns_label, check_dns_subdomain
from moorage.decide.scheduling.nodes.workloads import (
    WorkloadError,
    controller_of,
    daemon_index,
    make_pod,
    pod_name,
    pod_uid,
    template_hash,
)

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


def obj(kind: str = "Deployment", name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team", "uid": "uid-1"},
        "spec": {"template": TEMPLATE, **spec},
    }


@table(
    ("kind", "spec", "replicas"),
    [
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": None}, 1),
        ("Deployment", {"replicas": 0}, 0),
        ("StatefulSet", {"replicas": 7}, 7),
        ("DaemonSet", {"replicas": 7}, 0),
        ("Job", {}, 1),
        ("Job", {"parallelism": 4}, 4),
        ("Job", {"parallelism": 4, "completions": 3}, 3),
        ("Job", {"parallelism": 2, "completions": 3}, 2),
        ("Job", {"parallelism": 2, "suspend": True}, 0),
    ],
)
def test_how_many_pods(kind: str, spec: dict[str, Any], replicas: int) -> None:
    assert controller_of(obj(kind, **spec)).replicas == replicas


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (obj("Pod"), "kind"),
        (obj(replicas=-1), "spec.replicas"),
        (obj(replicas="3"), "spec.replicas"),
        (obj(replicas=True), "spec.replicas"),
        (obj("Job", parallelism=1.5), "spec.parallelism"),
        (obj(template=[1]), "spec.template"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{re.escape(field)}: ") as caught:
        controller_of(wrong)
    assert caught.value.field == field


@given(
    st.sampled_from(["Deployment", "ReplicaSet", "DaemonSet", "Job"]),
    st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?", fullmatch=True).filter(
        lambda name: not check_dns_subdomain(name)
    ),
    st.integers(0, 10**9),
)
def test_names_are_safe_whatever_the_owner_is_called(kind: str, name: str, index: int) -> None:
    made = pod_name(controller_of(obj(kind, name)), index, "salt")
    assert len(made) <= 63
    assert check_dns_subdomain(made) == []
    if "." not in name:
        assert check_dns_label(made) == []


def test_names_say_what_they_come_from_and_differ_by_salt() -> None:
    web = controller_of(obj())
    assert re.fullmatch(rf"web-{web.template_hash}-[b-z2-9]{{5}}", pod_name(web, 0, 1))
    assert re.fullmatch(r"web-[b-z2-9]{5}", pod_name(controller_of(obj("ReplicaSet")), 0, 1))
    assert pod_name(web, 0, 1) == pod_name(web, 0, 1)
    assert len({pod_name(web, index, salt) for index in range(20) for salt in range(20)}) == 400
    assert len({pod_uid(web, "a", salt) for salt in range(50)}) == 50
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", pod_uid(web, "a"))


def test_a_stateful_pod_is_named_by_its_index() -> None:
    assert pod_name(controller_of(obj("StatefulSet", "db")), 3, "any") == "db-3"
    with pytest.raises(WorkloadError, match=r"metadata.name.*must leave room for -3"):
        pod_name(controller_of(obj("StatefulSet", "d" * 252)), 3)


def test_the_hash_is_of_what_the_template_says_not_of_its_order() -> None:
    assert template_hash({"a": 1, "b": {"c": 2, "d": 3}}) == template_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})


def test_a_pod_is_whole() -> None:
    web = controller_of(obj())
    pod = make_pod(web, name="web-x", uid="u")
    assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": web.template_hash}
    assert pod["metadata"]["namespace"] == "team"
    (reference,) = pod["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["uid"], reference["controller"]) == (
        "Deployment",
        "web",
        "uid-1",
        True,
    )
    assert [one["tolerationSeconds"] for one in pod["spec"]["tolerations"]] == [300, 300]
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert TEMPLATE == {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


def test_daemon_and_stateful_pods_have_what_is_theirs() -> None:
    daemon = make_pod(controller_of(obj("DaemonSet")), name="a", uid="u")
    assert all("tolerationSeconds" not in one for one in daemon["spec"]["tolerations"])
    stateful = make_pod(controller_of(obj("StatefulSet", "db")), name="db-1", uid="u", index=1)
    assert stateful["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert stateful["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert stateful["status"]["phase"] == "Pending"


def test_a_pod_of_an_older_template_says_so() -> None:
    pod = make_pod(controller_of(obj()), name="web-old-x", uid="u", made_from="old")
    assert pod["metadata"]["labels"]["pod-template-hash"] == "old"


def test_places_of_daemon_pods_fit_into_json_numbers() -> None:
    places = {daemon_index(f"node-{number}") for number in range(5000)}
    assert len(places) == 5000
    assert max(places) < 2**53
