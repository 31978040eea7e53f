"""How partitions are divided among workers: whole, sticky, balanced, and only to those that are warm."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from moorage.runtime.kafka.partition.balancing import WorkerClaim, WorkerShare, divide

PARTITIONS = tuple(range(24))


def claims(shares: Mapping[str, WorkerShare], *, generation: int = 1, warm: bool = True) -> dict[str, WorkerClaim]:
    """What the workers report after they have got their shares and, if `warm`, have read their standbys."""
    return {
        worker: WorkerClaim(
            frozenset(share.owned), frozenset(share.standby) if warm else frozenset(), generation=generation
        )
        for worker, share in shares.items()
    }


def owned(shares: Mapping[str, WorkerShare]) -> dict[str, int]:
    return {worker: len(share.owned) for worker, share in shares.items()}


def test_one_worker_owns_everything_and_has_nobody_to_stand_by() -> None:
    assert divide(PARTITIONS, {"a": WorkerClaim()}) == {"a": WorkerShare(set(PARTITIONS), set())}
    assert divide(PARTITIONS, {}) == {}


def test_two_new_workers_share_evenly_and_stand_by_for_each_other() -> None:
    shares = divide(PARTITIONS, {"a": WorkerClaim(), "b": WorkerClaim()})
    assert owned(shares) == {"a": 12, "b": 12}
    assert shares["a"].standby == shares["b"].owned
    assert shares["b"].standby == shares["a"].owned


def test_what_a_killed_worker_owned_goes_to_its_standbys_and_nothing_else_moves() -> None:
    before = divide(PARTITIONS, {"a": WorkerClaim(), "b": WorkerClaim(), "c": WorkerClaim()})
    left = claims(before)
    gone = left.pop("b")
    after = divide(PARTITIONS, left)
    for worker, share in after.items():
        assert before[worker].owned <= share.owned
        assert share.owned - before[worker].owned <= before[worker].standby
    assert gone.owned <= after["a"].owned | after["c"].owned


def test_a_worker_that_comes_back_first_stands_by_and_takes_over_when_it_is_warm() -> None:
    alone = divide(PARTITIONS, {"a": WorkerClaim()})
    joined = divide(PARTITIONS, {**claims(alone), "b": WorkerClaim()})
    assert joined["a"].owned == set(PARTITIONS), "nothing moves to a worker that has read nothing"
    assert len(joined["b"].standby) == 24
    warm = divide(PARTITIONS, claims(joined))
    assert owned(warm) == {"a": 12, "b": 12}
    assert warm["b"].owned <= joined["b"].standby
    assert divide(PARTITIONS, claims(warm)) == warm, "and then nothing moves any more"


def test_what_its_owner_has_not_read_either_moves_at_once() -> None:
    every = frozenset(PARTITIONS)
    half_read = WorkerClaim(every, cold=frozenset(range(6, 24)), generation=1)
    shares = divide(PARTITIONS, {"a": half_read, "b": WorkerClaim()})
    assert owned(shares) == {"a": 12, "b": 12}
    assert shares["a"].owned >= set(range(6)), "what it has read stays"
    assert shares["b"].coming == set()


def test_who_waits_for_a_worker_to_be_warm_is_told_to_it() -> None:
    joined = divide(PARTITIONS, {**claims(divide(PARTITIONS, {"a": WorkerClaim()})), "b": WorkerClaim()})
    assert len(joined["b"].coming) == 12
    assert joined["b"].coming <= joined["b"].standby
    assert joined["a"].coming == set()
    assert divide(PARTITIONS, claims(joined))["b"].coming == set()


def test_of_two_claims_the_later_one_counts() -> None:
    shares = divide(
        (0, 1), {"a": WorkerClaim(frozenset({0, 1}), generation=4), "b": WorkerClaim(frozenset({0}), generation=5)}
    )
    assert shares["b"].owned == {0}


def test_partitions_that_do_not_exist_any_more_are_left_out() -> None:
    shares = divide((0,), {"a": WorkerClaim(frozenset({0, 7}), frozenset({8}))})
    assert shares["a"] == WorkerShare({0}, set())


NAMES = st.sets(st.sampled_from("abcdef"), min_size=1)


@given(
    partitions=st.integers(1, 30),
    groups=st.lists(NAMES, min_size=1, max_size=6),
    warm=st.booleans(),
    standbys=st.integers(0, 2),
)
def test_whoever_comes_and_goes(partitions: int, groups: list[set[str]], *, warm: bool, standbys: int) -> None:
    numbers = tuple(range(partitions))
    known: dict[str, WorkerClaim] = {}
    shares: dict[str, WorkerShare] = {}
    for generation, group in enumerate(groups):
        reported = {worker: known.get(worker, WorkerClaim()) for worker in group}
        shares = divide(numbers, reported, standbys=standbys)
        assert sorted(p for share in shares.values() for p in share.owned) == list(numbers)
        had = {p: worker for worker, claim in reported.items() for p in claim.owned}
        for worker, share in shares.items():
            assert not share.owned & share.standby
            for partition in share.owned:
                if had.get(partition, worker) != worker:
                    assert partition in reported[worker].warm, "it is taken from a living worker by a warm one only"
        if len(group) > standbys:
            counts = [sum(p in share.standby for share in shares.values()) for p in numbers]
            assert min(counts) >= standbys
        known = claims(shares, generation=generation, warm=warm)
    for _ in range(len(shares) + 1):  # everybody becomes warm
        shares = divide(numbers, claims(shares), standbys=standbys)
    sizes = owned(shares).values()
    assert max(sizes) - min(sizes) <= 1
    again = divide(numbers, claims(shares), standbys=standbys)
    assert {worker: share.owned for worker, share in again.items()} == {w: s.owned for w, s in shares.items()}
