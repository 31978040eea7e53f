"""Equal values share one object, and a pool does not grow for ever."""

from __future__ import annotations

from moorage.runtime.process.memory import Pool


def test_equal_values_share_the_first_object() -> None:
    pool: Pool[list[int]] = Pool()
    first = [1]
    assert pool.shared("a", first) is first
    assert pool.shared("a", [1]) is first
    assert pool.shared("b", [2]) == [2]
    assert len(pool) == 2


def test_a_full_pool_forgets_and_goes_on() -> None:
    pool: Pool[int] = Pool(most=10)
    for number in range(1000):
        assert pool.shared(number, number) == number
        assert len(pool) <= 10
