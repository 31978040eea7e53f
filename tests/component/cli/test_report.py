"""`moorage report` about workloads, and the source of its reports."""

from __future__ import annotations

import pytest
from tests.component.cli.fake_gateway import FakeGateway, Run, said

from moorage.cli.commands import report


@pytest.mark.parametrize(
    ("words", "workload", "called"),
    [
        (("pod/shop/web-0", "--on", "node/n1"), ("Pod", "shop", "web-0"), "pod/shop/web-0 on node/n1"),
        (("po/web-0", "--on", "no/n1"), ("Pod", "default", "web-0"), "pod/default/web-0 on node/n1"),
        (("po/web-0", "--on", "no/n1", "-n", "shop"), ("Pod", "shop", "web-0"), "pod/shop/web-0 on node/n1"),
        (
            ("resourcebinding/shop/web-deployment", "--on", "cluster/member1"),
            ("ResourceBinding", "shop", "web-deployment"),
            "resourcebinding/shop/web-deployment on cluster/member1",
        ),
        (("Widget/shop/w", "--on", "node/n1"), ("Widget", "shop", "w"), "widget/shop/w on node/n1"),
        (("namespace/shop", "--on", "node/n1"), ("Namespace", "", "shop"), "namespace/shop on node/n1"),
    ],
)
def test_a_workloads_condition_is_reported_with_its_target(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], workload: tuple[str, str, str], called: str
) -> None:
    assert said(run("report", *words, "Healthy=False", "--reason", "Crashed")) == (
        0,
        f"{called} reported Healthy=False\n",
        "",
    )
    data = gateway.events[0]["data"]
    assert tuple(data["workload"][part] for part in ("kind", "namespace", "name")) == workload
    assert f"{data['target']['kind'].lower()}/{data['target']['name']}" == called.rpartition(" ")[2]
    assert (data["type"], data["status"], data["reason"]) == ("Healthy", "False", "Crashed")


def test_a_person_reports_as_the_command_line_and_a_probe_as_itself(gateway: FakeGateway, run: Run) -> None:
    assert run("report", "node/n1", "Ready=False").exit_code == 0
    assert run("report", "node/n1", "Ready=False", "--source", "probe/disk").exit_code == 0
    mine, probes = ((event["source"], event["data"]["source"]) for event in gateway.events)
    assert mine[0] == mine[1]
    assert mine[0].startswith("cli/"), "by which it is known that no heartbeats follow"
    assert probes == ("probe/disk", "probe/disk")
    assert "workload" not in gateway.events[0]["data"] or gateway.events[0]["data"]["workload"] is None


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("pod/shop/web-0", "H=True"),
            1,
            "error: invalid resource type pod: only targets, such as nodes, have conditions",
        ),
        (("pod", "H=True", "--on", "node/n1"), 2, "error: invalid workload 'pod': must be KIND/NAME"),
        (("pod/a/b/c", "H=True", "--on", "node/n1"), 2, "error: invalid workload 'pod/a/b/c'"),
        (("pod//web", "H=True", "--on", "node/n1"), 2, "error: invalid workload 'pod//web'"),
        (("node/n2", "H=True", "--on", "node/n1"), 2, "error: invalid workload 'node/n2': must not be a target"),
        (("widget/a/b", "H=True", "--on", "node/n1"), 1, "error: invalid kind 'widget'"),
        (("pod/a/b", "H=True", "--on", "pod/c"), 1, "error: invalid resource type pod"),
        (("pod/a/b", "H=True", "--on", "n1"), 2, "error: invalid target 'n1': must be KIND/NAME"),
        (("pod/a/b|c", "H=True", "--on", "node/n1"), 2, "error: workload.name: invalid value 'b|c'"),
        (("pod/a/" + "x" * 300, "H=True", "--on", "node/n1"), 2, "error: invalid workload"),
    ],
)
def test_what_is_wrong_is_said_before_the_server_is_asked(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = said(run("report", *words))
    assert (found, out) == (code, "")
    assert err.startswith(message)
    assert gateway.requests == []


@pytest.mark.parametrize(
    ("words", "waited"),
    [((), "10"), (("--timeout", "1500ms"), "1.5"), (("--no-wait",), ""), (("--no-wait", "--timeout", "9s"), "")],
)
def test_it_waits_for_what_becomes_of_the_report(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], waited: str
) -> None:
    assert run("report", "node/n1", "Ready=False", *words).exit_code == 0
    assert gateway.queries[-1].get("waitSeconds", "") == waited


@pytest.mark.parametrize("form", ["table", "name", "json"])
def test_a_report_that_is_ignored_is_an_error(gateway: FakeGateway, run: Run, form: str) -> None:
    gateway.outcome = lambda _report: {"outcome": "Ignored", "message": "older than noon"}
    assert said(run("report", "node/n1", "Ready=False", "--at", "5m", "-o", form)) == (
        1,
        "",
        "error: node/n1 Ready=False ignored: older than noon\n",
    )


def test_of_many_reports_those_that_are_ignored_are_named(gateway: FakeGateway, run: Run) -> None:
    old = {"outcome": "Ignored", "message": "older than noon"}
    gateway.outcome = lambda report: old if report["type"] == "Ready" else {"outcome": "Unchanged"}
    assert said(run("report", "node/n1", "Ready=False", "DiskPressure=False")) == (
        1,
        "node/n1 reported DiskPressure=False\n",
        "error: node/n1 Ready=False ignored: older than noon\n",
    )


def test_a_report_whose_outcome_is_not_known_in_time_is_a_warning(gateway: FakeGateway, run: Run) -> None:
    gateway.outcome = lambda _report: {"outcome": "Accepted"}
    code, out, err = said(run("report", "node/n1", "Ready=False"))
    assert (code, out) == (0, "node/n1 reported Ready=False\n")
    assert err.startswith(
        "warning: after 10 s it is not known whether 1 of 1 reports count; is condition-ingest running?"
    )
    assert said(run("report", "node/n1", "Ready=False", "--no-wait")) == (0, "node/n1 reported Ready=False\n", "")


@pytest.mark.parametrize(
    ("timeout", "message"),
    [
        ("0s", "error: --timeout: invalid value '0s': must be more than 0 and at most 30s"),
        ("31s", "error: --timeout: invalid value '31s': must be more than 0 and at most 30s"),
        ("soon", "error: --timeout: invalid duration 'soon'"),
    ],
)
def test_a_timeout_that_cannot_be_is_named(gateway: FakeGateway, run: Run, timeout: str, message: str) -> None:
    code, out, err = said(run("report", "node/n1", "Ready=False", "--timeout", timeout))
    assert (code, out, gateway.requests) == (2, "", [])
    assert err.startswith(message)


def test_all_targets_of_a_kind_are_reported_in_as_many_requests_as_the_gateway_needs(
    gateway: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("n1", "n2", "n3"):
        gateway.node(name)
    monkeypatch.setattr(report, "_AT_ONCE", 4)
    assert said(run("report", "nodes", "--all", "Ready=True", "DiskPressure=False", "--reason", "KubeletReady")) == (
        0,
        "".join(
            f"node/{name} reported {one}\n"
            for name in ("n1", "n2", "n3")
            for one in ("Ready=True", "DiskPressure=False")
        ),
        "",
    )
    assert len([method for method, *_ in gateway.requests if method == "POST"]) == 2
    assert {event["data"]["target"]["name"] for event in gateway.events} == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("node/n1", "--all", "Ready=True"), 2, "error: name cannot be provided when --all is specified"),
        (("pods", "--all", "Healthy=True", "--on", "node/n1"), 2, "error: name cannot be provided when --all"),
        (("pods", "--all", "Healthy=True"), 1, "error: invalid resource type pods"),
    ],
)
def test_all_is_said_of_a_kind_of_targets(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = said(run("report", *words))
    assert (found, out) == (code, "")
    assert err.startswith(message)
    assert gateway.requests == []


def test_where_there_is_no_target_nothing_is_reported(gateway: FakeGateway, run: Run) -> None:
    assert said(run("report", "nodes", "--all", "Ready=True")) == (0, "", "No resources found\n")
    assert gateway.events == []
