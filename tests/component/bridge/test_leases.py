"""When a node counts as silent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moorage.bridges.engine.silence import Leases

GRACE = 50.0
NODES = st.sampled_from(["n1", "n2"])


class Silence(RuleBasedStateMachine):
    """Renewals, time, and times in which the cluster was not seen, beside what each node should be."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases(GRACE)
        self.now = 0.0
        self.number = 0
        self.since: dict[str, float] = {}
        """How long each node has been seen without a renewal, in a time in which the cluster was seen."""

        self.last: dict[str, str] = {}

    @rule(seconds=st.sampled_from([1.0, 10.0, 24.0, 25.0, 49.0, 50.0]))
    def time_passes_and_is_looked_at(self, seconds: float) -> None:
        self.now += seconds
        self.since = {node: passed + seconds for node, passed in self.since.items()}
        self.leases.silence(self.leases.due(self.now))

    @rule(node=NODES)
    def the_lease_is_renewed(self, node: str) -> None:
        self.number += 1
        was_silent = self.leases.is_silent(node)
        self.last[node] = f"t{self.number}"
        assert self.leases.renewed(node, self.now, lease=self.last[node]) is was_silent
        self.since[node] = 0.0

    @rule(node=NODES)
    def the_status_is_written(self, node: str) -> None:
        self.number += 1
        self.leases.renewed(node, self.now, heartbeat=f"h{self.number}")
        self.since[node] = 0.0

    @rule(node=NODES)
    def an_old_renewal_is_read_again(self, node: str) -> None:
        """As by a list, after a watch was cut."""
        if node in self.last:
            assert not self.leases.renewed(node, self.now, lease=self.last[node])

    @rule(node=NODES)
    def the_node_is_seen_without_news(self, node: str) -> None:
        self.leases.renewed(node, self.now)
        self.since.setdefault(node, 0.0)

    @rule(node=NODES)
    def the_node_is_gone(self, node: str) -> None:
        self.leases.gone(node)
        self.since.pop(node, None)
        self.last.pop(node, None)

    @rule(seconds=st.sampled_from([1.0, 60.0, 3600.0]))
    def the_cluster_is_not_seen(self, seconds: float) -> None:
        """Who was silent before stays so. The others have a whole grace period again."""
        self.now += seconds
        self.leases.grant(self.now)
        silent = {node for node, passed in self.since.items() if passed >= GRACE}
        self.since = {node: GRACE if node in silent else 0.0 for node in self.since}

    @invariant()
    def a_node_is_silent_after_a_whole_grace_period_and_not_before(self) -> None:
        assert self.leases._silent == {node for node, passed in self.since.items() if passed >= GRACE}


TestSilence = Silence.TestCase


@given(st.floats(0, 1e9), st.floats(0, GRACE, exclude_max=True))
def test_a_bridge_that_has_just_started_waits_a_whole_grace_period(start: float, passed: float) -> None:
    """However old the renewal is that it finds."""
    leases = Leases(GRACE)
    leases.renewed("n1", start, lease="2020-01-01T00:00:00Z")
    if start + passed - start < GRACE:
        assert leases.due(start + passed) == []
    assert leases.due(start + GRACE + 1) == ["n1"]
