"""All invariants, in one list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tests.chaos.seeded.checker import (
    accepted,
    acknowledgements,
    agreement,
    budgets,
    evictions,
    generations,
    growth,
    inputs,
    leaves,
    permission,
    placements,
    policies,
    reports,
    zones,
)
from tests.chaos.seeded.checker.parsed_history import Run
from tests.chaos.seeded.checker.violations import Allowances, Violation
from tests.chaos.seeded.history import History

INVARIANTS: Final[tuple[Callable[[Run], Iterator[Violation]], ...]] = (
    inputs.what_was_acknowledged_is_there,
    inputs.no_service_fails,
    inputs.no_report_is_lost,
    inputs.no_edit_is_lost,
    inputs.nothing_is_done_twice,
    reports.conditions_go_forward,
    reports.conditions_begin_with_their_report,
    reports.reports_count_for_their_target,
    reports.nobody_is_refused_for_nothing,
    reports.nobody_is_silenced_who_spoke,
    generations.evictions_have_one_outcome,
    generations.generations_of_evictions_grow,
    generations.generations_grow,
    generations.timers_move_forward,
    generations.timers_fire_once_and_never_early,
    generations.deadlines_have_their_timers,
    evictions.nobody_evicted_needlessly,
    evictions.decisions_are_written_soon,
    evictions.deadlines_are_what_taints_say,
    evictions.nobody_evicted_on_stale_positions,
    evictions.owners_know_what_was_there,
    evictions.what_waited_is_read_in_order,
    evictions.nobody_evicted_after_relief,
    accepted.nobody_evicted_against_its_own_record,
    accepted.nobody_evicted_whose_labels_are_paused,
    accepted.nobody_evicted_from_a_node_reported_ready,
    acknowledgements.what_is_acknowledged_was_reported,
    acknowledgements.what_waits_is_not_ended,
    leaves.named_requesters_had_asked,
    leaves.who_demands_it_is_named,
    leaves.nobody_scheduled_late,
    permission.nobody_evicted_after_a_cancel,
    permission.nobody_evicted_while_paused,
    permission.nobody_evicted_without_leave,
    budgets.windows_are_kept,
    budgets.concurrency_is_kept,
    budgets.disruption_budgets_are_kept,
    budgets.cluster_rate_is_kept,
    zones.zone_rates_are_kept,
    zones.nodes_wait_for_a_tick,
    zones.nodes_are_tainted_at_their_zones_rate,
    zones.lost_zones_get_nothing,
    zones.node_taints_are_granted,
    zones.conditions_have_held,
    placements.bare_work_is_in_one_place,
    placements.bindings_tolerate,
    placements.claimed_work_makes_no_pods,
    placements.bindings_are_what_was_decided,
    placements.nobody_leaves_unasked,
    placements.requested_work_has_left,
    placements.selected_clusters_are_tolerated,
    placements.available_clusters_are_selected,
    agreement.conditions_are_the_last_reports,
    agreement.taints_are_what_is_asked_for,
    policies.taint_policies_are_followed,
    zones.zones_know_their_nodes,
    agreement.evictions_are_what_is_due,
    acknowledgements.what_was_reported_is_acknowledged,
    agreement.timers_are_forgotten,
    agreement.asks_are_answered,
    agreement.what_is_due_is_done,
    agreement.nothing_is_left_to_repair,
    agreement.views_are_the_topics,
    growth.what_is_kept_is_declared,
    growth.nothing_grows,
)
"""In the order in which events pass through the system, so that the first that fails is the nearest to the cause."""


def check(
    history: History,
    allowances: Allowances | None = None,
    *,
    only: Iterable[Callable[[Run], Iterator[Violation]]] = INVARIANTS,
) -> list[Violation]:
    """Whatever a run has broken, in the order of the promises; empty when nothing.

    Args:
        history: what happened.
        allowances: what is allowed for what cannot be known; the defaults suit a simulated run.
        only: which promises to look at.
    """
    run = Run(history, allowances or Allowances())
    return [violation for invariant in only for violation in invariant(run)]
