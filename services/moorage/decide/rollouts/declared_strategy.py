"""The terms of a strategy in the form of the API."""

from __future__ import annotations

from moorage.decide.rollouts.strategy import RolloutTerms, RolloutType
from moorage_schemas.resources.rollouts import RolloutProgressive, RolloutProgressivePerGroup, RolloutStrategy


def terms_of(strategy: RolloutStrategy) -> RolloutTerms:
    """Return the terms of a strategy. A part for another type does not count.

    Raises:
        StrategyError: a field is invalid.
    """
    if strategy.type == RolloutType.ALL:
        return RolloutTerms.of(strategy.type, deadline=strategy.all.progress_deadline if strategy.all else "")
    is_per_group = strategy.type == RolloutType.PROGRESSIVE_PER_GROUP
    part = (strategy.progressive_per_group if is_per_group else strategy.progressive) or RolloutProgressivePerGroup()
    return RolloutTerms.of(
        strategy.type,
        min_success=part.min_success_time,
        deadline=part.progress_deadline,
        max_failures=part.max_failures,
        max_concurrency=part.max_concurrency if isinstance(part, RolloutProgressive) else 0,
        mandatory=[(one.group_name, one.group_index) for one in part.mandatory_decision_groups],
    )
