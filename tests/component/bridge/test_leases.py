"""When a node counts as silent."""

from __future__ import annotations

from moorage.bridge.leases import Leases


def test_a_node_is_silent_after_a_whole_grace_period_without_a_renewal() -> None:
    leases = Leases(grace=40)
    leases.renewed("n1", 0, lease="a")
    leases.renewed("n1", 10, lease="b")
    leases.renewed("n1", 20, lease="b")
    assert leases.due(49.9) == []
    assert leases.due(50) == ["n1"]
    leases.silence(["n1"])
    assert leases.is_silent("n1")
    assert leases.due(60) == []


def test_a_renewal_ends_the_silence() -> None:
    leases = Leases(grace=40)
    leases.renewed("n1", 0, lease="a")
    leases.silence(["n1"])
    assert not leases.renewed("n1", 41, lease="a")
    assert leases.renewed("n1", 42, lease="b")
    assert not leases.is_silent("n1")


def test_a_heartbeat_in_the_status_counts_as_a_renewal() -> None:
    leases = Leases(grace=40)
    leases.renewed("n1", 0, lease="a", heartbeat="x")
    leases.renewed("n1", 30, heartbeat="y")
    assert leases.due(69) == []
    assert leases.due(70) == ["n1"]


def test_a_time_in_which_the_cluster_was_not_seen_does_not_count() -> None:
    leases = Leases(grace=40)
    leases.renewed("n1", 0, lease="a")
    leases.grant(100)
    assert leases.due(139) == []
    assert leases.due(140) == ["n1"]


def test_one_that_is_gone_is_forgotten() -> None:
    leases = Leases(grace=40)
    leases.renewed("n1", 0)
    leases.gone("n1")
    assert leases.due(100) == []
