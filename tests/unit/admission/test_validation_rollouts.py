"""Validation of rollouts, and the warnings about fields without effect."""

from __future__ import annotations

from typing import Any

from tests.support.tables import table

from moorage.apiserver.rules.validation.rollouts import rollout_warnings, validate_rollout, validate_rollout_update
from moorage_schemas.resources.rollouts import Rollout

_NOT_AN_AMOUNT = "must be a number of clusters or a percentage up to 100%"


def _rollout(strategy: dict[str, Any] | None = None, **spec: Any) -> Rollout:
    found = {"placementRef": {"name": "p"}, "version": "v1", "strategy": strategy or {}} | spec
    metadata = {"name": "web", "namespace": "shop"}
    return Rollout.model_validate(
        {"apiVersion": "moorage.io/v1alpha1", "kind": "Rollout", "metadata": metadata, "spec": found}
    )


@table(
    ("rollout", "messages"),
    [
        (_rollout(), []),
        (
            _rollout(placementRef={}, version=""),
            ["spec.placementRef.name: Required value", "spec.version: Required value"],
        ),
        (
            _rollout(version="v" * 254),
            [f'spec.version: Invalid value: "{"v" * 254}": must have at most 253 characters'],
        ),
        (
            _rollout({"type": "Most"}),
            ['spec.strategy.type: Invalid value: "Most": must be one of All, Progressive, ProgressivePerGroup'],
        ),
        (
            _rollout({"type": "Progressive", "progressive": {"maxConcurrency": "3x", "maxFailures": "101%"}}),
            [
                f'spec.strategy.progressive.maxFailures: Invalid value: "101%": {_NOT_AN_AMOUNT}',
                f'spec.strategy.progressive.maxConcurrency: Invalid value: "3x": {_NOT_AN_AMOUNT}',
            ],
        ),
        (
            _rollout({"type": "Progressive", "progressive": {"maxConcurrency": "3"}}),
            [
                (
                    'spec.strategy.progressive.maxConcurrency: Invalid value: "3": '
                    "must be a number of clusters or a percentage such as 25%"
                )
            ],
        ),
        (
            _rollout({"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "-5m"}}),
            ['spec.strategy.progressivePerGroup.minSuccessTime: Invalid value: "-5m": must not be negative'],
        ),
        (
            _rollout({"type": "All", "all": {"progressDeadline": "2d"}}),
            [
                (
                    'spec.strategy.all.progressDeadline: Invalid value: "2d": '
                    "must be a duration such as 90s, 5m or 1h30m, or None"
                )
            ],
        ),
    ],
)
def test_rollouts(rollout: Rollout, messages: list[str]) -> None:
    assert [str(error) for error in validate_rollout(rollout)] == messages


def test_the_placement_cannot_be_changed() -> None:
    before, after = ({"spec": {"placementRef": {"name": name}}} for name in ("p", "q"))
    assert validate_rollout_update(before, before) == []
    assert [one.path for one in validate_rollout_update(before, after)] == ["spec.placementRef"]


def test_warnings_name_what_has_no_effect() -> None:
    spec = {"strategy": {"type": "All", "all": {"maxFailures": 2, "progressDeadline": "5m"}, "progressive": {}}}
    assert rollout_warnings(spec) == [
        "spec.strategy.progressive: ignored, because the type is All",
        "spec.strategy.all.maxFailures: ignored, because all clusters follow at once",
    ]
    assert rollout_warnings({}) == []
