from __future__ import annotations

from tests.support.tables import table

from moorage.decide.disruption.budgets import Disruptions
from moorage.decide.disruption.expected_pods import ControllerRef, PodScale, expected_pods

WEB = ControllerRef("apps", "ReplicaSet", "web-1", "u1")
NEXT = ControllerRef("apps", "ReplicaSet", "web-2", "u2")
DEPLOYMENT = ControllerRef("apps", "Deployment", "web", "u3")
ROLLOUT = ControllerRef("argoproj.io", "Rollout", "canary", "u4")
FOREIGN = ControllerRef("example.com", "Deployment", "web", "u5")

THERE = {
    WEB: PodScale("u1", 2, DEPLOYMENT),
    NEXT: PodScale("u2", 1, DEPLOYMENT),
    DEPLOYMENT: PodScale("u3", 5),
    ROLLOUT: PodScale("u4", 7),
}


def found(*missing: ControllerRef, **changed: PodScale) -> dict[tuple[str, str, str], PodScale]:
    known = {(one.group, one.kind, one.name): there for one, there in THERE.items() if one not in missing}
    return known | {("apps", "ReplicaSet", name.replace("_", "-")): one for name, one in changed.items()}


@table(
    ("references", "known", "expected"),
    [
        ([], found(), 0),
        ([None, None], found(), 0),
        ([WEB, WEB, NEXT], found(), 5),  # both of one Deployment
        ([WEB, ROLLOUT, None], found(), 12),
        ([DEPLOYMENT], found(), 5),
        ([WEB, NEXT], found(DEPLOYMENT), 3),  # the Deployment is gone, so its ReplicaSets count
        ([WEB], found(web_1=PodScale("u1", 2, FOREIGN)), 2),
        ([WEB], found(web_1=PodScale("u1", 2, DEPLOYMENT._replace(uid="former"))), 2),
        ([WEB], found(WEB), None),
        ([WEB._replace(uid="former")], found(), None),
        ([ROLLOUT, WEB], found(ROLLOUT), None),
    ],
)
def test_as_many_pods_are_expected_as_their_controllers_want(
    references: list[ControllerRef | None], known: dict[tuple[str, str, str], PodScale], expected: int | None
) -> None:
    assert expected_pods(references, lambda one: known.get((one.group, one.kind, one.name))) == expected


@table(
    ("counts", "said"),
    [
        (Disruptions(3, 2, 2), "needs 2 healthy pods and has 2 currently"),
        (Disruptions(0, 0, 4), "does not allow evicting pods currently"),
        (
            Disruptions(0, 0, 4, scaled=False),
            (
                "does not allow evicting pods currently because it failed sync: "
                "what makes its pods does not say how many it wants"
            ),
        ),
    ],
)
def test_a_refusal_has_upstreams_words(counts: Disruptions, said: str) -> None:
    assert counts.refusal("b") == f"The disruption budget b {said}"
