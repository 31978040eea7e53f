"""Measures how long the question takes whether somebody may do something, with many bindings.

The last line is JSON.

The gateway asks at each request. Users have bindings of the fleet and of namespaces to the default roles, the long
aggregated ones among them, and are in groups that have bindings, too. Questions are of several verbs and resources, and
some are refused, for which every role of the user is looked at. The limit is a look-up of the same question in a
dictionary, which nobody could keep up to date. Both are measured in turn, and the medians are compared. Stated
separately is the first question of each user after a binding has changed, when his bindings are looked up.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that the script runs from any folder
from bench import history

from moorage.core.authorization.aggregation import aggregated_rules, is_aggregated
from moorage.core.authorization.attributes import AUTHENTICATED, Attributes, Permission, User
from moorage.core.authorization.bindings import CLUSTER_ROLE, RoleBinding, RoleKey, RoleRef, RoleSubject
from moorage.core.authorization.policy import RbacPolicy
from moorage.core.authorization.rules import rules_of
from moorage.gateway.authorization.default_roles import ROLES

BOUND = ("view", "edit", "admin", "moorage:viewer", "moorage:operator", "moorage:deployer", "moorage:probe")
VERBS = ("get", "list", "watch", "create", "patch", "delete")
RESOURCES = (("", "pods"), ("apps", "deployments"), ("", "nodes"), ("moorage.io", "evictions"), ("", "secrets"))
ASKING = 1000
"""The users who ask."""

Question = tuple[User, Attributes]


def make_policy(rng: random.Random, users: Sequence[User], bindings: int, namespaces: int) -> RbacPolicy:
    """The default roles, and bindings of them to random users and groups."""
    policy = RbacPolicy()
    for one in ROLES:
        rules = aggregated_rules(one, ROLES) if is_aggregated(one) else rules_of(one["rules"])
        policy.put_role(RoleKey("", one["metadata"]["name"]), rules)
    # Selectors that select aggregated roles need their rules, too.
    known = [{**one, "rules": [rule.document() for rule in policy.role_rules(_ref(one), "")]} for one in ROLES]
    for one in known:
        if is_aggregated(one):
            policy.put_role(RoleKey("", one["metadata"]["name"]), aggregated_rules(one, known))
    for number in range(bindings):
        user = rng.choice(users)
        subject = RoleSubject("User", user.name) if number % 10 else RoleSubject("Group", user.groups[-1])
        namespace = f"ns-{rng.randrange(namespaces)}" if number % 2 else ""
        policy.put_binding(RoleBinding(namespace, f"b-{number}", RoleRef(CLUSTER_ROLE, rng.choice(BOUND)), (subject,)))
    return policy


def _ref(role: Mapping[str, Any]) -> RoleRef:
    return RoleRef(CLUSTER_ROLE, role["metadata"]["name"])


def make_questions(rng: random.Random, users: Sequence[User], count: int, namespaces: int) -> list[Question]:
    """Random questions of some of the users."""
    asking = rng.sample(users, min(ASKING, len(users)))
    found = []
    for _ in range(count):
        group, resource = rng.choice(RESOURCES)
        namespace = f"ns-{rng.randrange(namespaces)}" if resource != "nodes" else ""
        name = rng.choice(("", "a", "b"))
        found.append((rng.choice(asking), Attributes(rng.choice(VERBS), group, "v1", resource, "", namespace, name)))
    return found


def seconds(ask: Callable[[Question], Permission], questions: Sequence[Question]) -> float:
    """The seconds that all questions take."""
    start = time.perf_counter()
    for one in questions:
        ask(one)
    return time.perf_counter() - start


def main() -> int:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bindings", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=5000)
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    rng = random.Random(options.seed)
    users = [User(f"u-{number}", (AUTHENTICATED, f"g-{number % 200}")) for number in range(options.users)]
    policy = make_policy(rng, users, options.bindings, options.namespaces)
    questions = make_questions(rng, users, options.questions, options.namespaces)

    def ours(one: Question) -> Permission:
        return policy.authorize(*one)

    known: dict[tuple[str, tuple[str, ...], Attributes], Permission] = {}
    for user, asked in questions:
        known[user.name, user.groups, asked] = policy.authorize(user, asked)

    def limit(one: Question) -> Permission:
        return known[one[0].name, one[0].groups, one[1]]

    times, limits, firsts = [], [], []
    for number in range(options.rounds):
        policy.remove_binding("", "none")  # as any change of a binding: what was remembered is forgotten
        places = dict.fromkeys((user.name, asked.namespace) for user, asked in questions)
        firsts.append(seconds(ours, questions) / len(places))
        times.append(seconds(ours, questions) / len(questions))
        limits.append(seconds(limit, questions) / len(questions))
        print(f"round {number + 1}: {times[-1] * 1e6:.2f} µs, a look-up {limits[-1] * 1e6:.2f} µs", flush=True)
    mine, theirs = statistics.median(times), statistics.median(limits)
    result = {
        "bench": "permissions",
        "question_us": round(mine * 1e6, 3),
        "limit_us": round(theirs * 1e6, 3),
        "ratio": round(mine / theirs, 2),
        "first_us": round(statistics.median(firsts) * 1e6, 1),
        "allowed_share": round(sum(one.allowed for one in known.values()) / len(known), 3),
        "bindings": options.bindings,
        "users": options.users,
        "namespaces": options.namespaces,
        "questions": options.questions,
        "rounds": options.rounds,
    }
    history.record(result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
