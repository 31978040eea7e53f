"""What a request asks to do, on whose behalf, and how a refusal is told and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.component.gateway.double import Fixture
from tests.support.identities import written
from tests.support.tables import table
from tests.support.waiting import until

from moorage.apiserver.http.filters.request_attributes import attributes_of, seen_by
from moorage.decide.kubernetes.attributes import Attributes
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.dead_letter import Audited
from moorage_schemas.topics import AUDIT

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = 'root,root,0,"system:masters"\na,ann,1,"builders"\nb,bob,2\n'


def of(text: str) -> Attributes:
    """What `verb group/version resource/subresource namespace name` says, with `-` for nothing."""
    verb, version, resource, namespace, name = ("" if part == "-" else part for part in text.split())
    group, _, number = version.rpartition("/")
    plural, _, subresource = resource.partition("/")
    return Attributes(verb, group, number, plural, subresource, namespace, name)


EXPLAIN = {"name": "x", "namespace": "a"}
NAMED = {"fieldSelector": "a=b,metadata.name==p", "watch": "1"}


@table(
    ("method", "path", "query", "asked"),
    [
        ("GET", "/api/v1/pods", {}, "list v1 pods - -"),
        ("HEAD", "/api/v1/pods", {}, "list v1 pods - -"),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch v1 pods - -"),
        ("GET", "/api/v1/pods", {"watch": "0"}, "list v1 pods - -"),
        ("GET", "/api/v1/pods", {"watch": "False"}, "list v1 pods - -"),
        ("GET", "/api/v1/pods", {"watch": "yes"}, "watch v1 pods - -"),  # whatever is answered with a watch
        ("GET", "/api/v1/pods", {"watch": ""}, "watch v1 pods - -"),
        ("GET", "/api/v1/watch/pods", {}, "watch v1 pods - -"),
        ("GET", "/api/v1/watch/namespaces/a/pods/p", {}, "watch v1 pods a p"),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=p"}, "list v1 pods - p"),
        ("GET", "/api/v1/pods", NAMED, "watch v1 pods - p"),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name!=p"}, "list v1 pods - -"),
        ("GET", "/api/v1/pods", {"fieldSelector": "((("}, "list v1 pods - -"),
        ("GET", "/api/v1/namespaces", {}, "list v1 namespaces - -"),
        ("GET", "/api/v1/namespaces/a", {}, "get v1 namespaces a a"),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, "update v1 namespaces/finalize a a"),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, "get v1 pods a p"),
        ("GET", "/api/v1/namespaces/a/pods/p/", {}, "get v1 pods a p"),
        ("POST", "/api/v1/namespaces/a/pods/p/eviction", {}, "create v1 pods/eviction a p"),
        ("GET", "/api/v1/namespaces/a/pods/p/log/x", {}, "get v1 pods/log a p"),
        ("GET", "/api/v1/proxy/nodes/n/x", {}, "proxy v1 nodes - n"),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", {}, "deletecollection apps/v1 deployments a -"),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", {}, "patch apps/v1 deployments/scale a d"),
        ("PUT", "/apis/none/v9/things/t", {}, "update none/v9 things - t"),
        ("OPTIONS", "/api/v1/pods", {}, "- v1 pods - -"),
        ("POST", "/v1/conditions", {}, "create moorage.io/v1alpha1 conditionreports - -"),
        ("GET", "/v1/explain", EXPLAIN | {"kind": "Pod"}, "get moorage.io/v1alpha1 explanations a x"),
        ("GET", "/v1/explain", EXPLAIN | {"kind": "node"}, "get moorage.io/v1alpha1 explanations - x"),
        ("GET", "/v1/explain", {"kind": "Pod", "name": "p"}, "get moorage.io/v1alpha1 explanations default p"),
        ("GET", "/v1/decisions", {"namespace": "a"}, "watch moorage.io/v1alpha1 decisions a -"),
    ],
)
def test_what_a_request_asks(method: str, path: str, query: dict[str, str], asked: str) -> None:
    assert attributes_of(method, path, query) == of(asked)


@pytest.mark.parametrize(
    ("path", "kind", "asked"),
    [
        ("/v1/explain", "Node", "get v1 nodes - x"),
        ("/v1/explain", "node", "get v1 nodes - x"),
        ("/v1/explain", "Cluster", "get cluster.karmada.io/v1alpha1 clusters - x"),
        ("/v1/explain", "ManagedCluster", "get cluster.open-cluster-management.io/v1 managedclusters - x"),
        ("/v1/explain", "Pod", ""),
        ("/v1/explain", "none", ""),
        ("/v1/decisions", "Node", ""),
    ],
)
def test_who_asks_about_a_target_must_be_allowed_to_see_it(path: str, kind: str, asked: str) -> None:
    assert seen_by(path, {"kind": kind, "name": "x"}) == (of(asked) if asked else None)


async def test_an_explanation_of_a_target_needs_both_rights(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    path = "/v1/explain?kind=Node&name=n1"
    explains = {"verbs": ["get"], "apiGroups": ["moorage.io"], "resources": ["explanations"]}
    sees = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n1"]}
    await allow(gateway, "sees", [{"kind": "User", "name": "ann"}], sees)
    await allow(gateway, "explains", [{"kind": "User", "name": "bob"}], explains)
    told = 'explanations.moorage.io "n1" is forbidden: User "ann" cannot get resource "explanations" in API group'
    assert (await call(gateway, "a", "GET", path)).json()["message"].startswith(told)
    told = 'nodes "n1" is forbidden: User "bob" cannot get resource "nodes" in API group "" at the cluster scope'
    assert (await call(gateway, "b", "GET", path)).json()["message"] == told
    await allow(gateway, "both", [{"kind": "User", "name": "bob"}], sees)
    assert (await call(gateway, "b", "GET", path)).status_code == 503, "it is passed on: there is no query worker"
    assert (await call(gateway, "b", "GET", "/v1/explain?kind=Node&name=n2")).status_code == 403


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/api/v1/watch", "/metrics", "/foo/bar/baz/qux"]
)
def test_paths_that_are_of_no_objects(path: str) -> None:
    assert attributes_of("GET", path, {}) == Attributes("get", path=path)


async def gateway_of(folder: Path) -> Fixture:
    """A gateway with tokens of `root`, `ann` and `bob`. Who is authenticated may ask who they are."""
    gateway = Fixture(settings=Settings(token_auth_file=written(folder, "tokens.csv", TOKENS)))
    await allow(gateway, "everybody", [{"kind": "Group", "name": "system:authenticated"}], CREATE_REVIEWS)
    return gateway


CREATE_REVIEWS = {
    "verbs": ["create"],
    "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
    "resources": ["selfsubjectreviews", "selfsubjectaccessreviews"],
}


async def allow(gateway: Fixture, name: str, subjects: list[Any], *rules: Any) -> None:
    root = {"authorization": "Bearer root"}
    await gateway.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)}, headers=root)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": subjects,
    }
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding, headers=root)


async def call(gateway: Fixture, token: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
    sent = {"authorization": f"Bearer {token}"} if token else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await gateway.call(method, path, body, headers={**sent, **named})


@pytest.mark.parametrize(
    ("method", "path", "told", "details"),
    [
        (
            "GET",
            "/api/v1/nodes",
            'nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope',
            {"kind": "nodes"},
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/pods/x",
            (
                'pods "x" is forbidden: User "bob" cannot delete resource "pods" in API group "" in the '
                'namespace "default"'
            ),
            {"name": "x", "kind": "pods"},
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/x/scale",
            (
                'deployments.apps "x" is forbidden: User "bob" cannot update resource "deployments/scale" in API group '
                '"apps" in the namespace "default"'
            ),
            {"name": "x", "group": "apps", "kind": "deployments"},
        ),
        (
            "GET",
            "/apis/nogroup/v1/namespaces/default/foos/x",
            (
                'foos.nogroup "x" is forbidden: User "bob" cannot get resource "foos" in API group "nogroup" in the '
                'namespace "default"'
            ),
            {"name": "x", "group": "nogroup", "kind": "foos"},
        ),
        ("GET", "/metrics", 'forbidden: User "bob" cannot get path "/metrics"', None),
        ("GET", "/foo/bar", 'forbidden: User "bob" cannot get path "/foo/bar"', None),
        (
            "POST",
            "/v1/conditions",
            (
                'conditionreports.moorage.io is forbidden: User "bob" cannot create resource "conditionreports" in API '
                'group "moorage.io" at the cluster scope'
            ),
            {"group": "moorage.io", "kind": "conditionreports"},
        ),
        (
            "GET",
            "/v1/explain?kind=Pod&name=p",
            (
                'explanations.moorage.io "p" is forbidden: User "bob" cannot get resource "explanations" in API group '
                '"moorage.io" in the namespace "default"'
            ),
            {"name": "p", "group": "moorage.io", "kind": "explanations"},
        ),
    ],
)
async def test_a_refusal_says_who_may_not_do_what(
    tmp_path: Path, method: str, path: str, told: str, details: dict[str, str] | None
) -> None:
    answer = await call(await gateway_of(tmp_path), "b", method, path)
    status = answer.json()
    assert (answer.status_code, status["message"], status["reason"]) == (403, told, "Forbidden")
    assert status.get("details") == (details if details is not None else {})


async def test_a_role_lets_its_users_through_and_its_end_is_the_end(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}
    await allow(gateway, "lookers", [{"kind": "Group", "name": "builders"}], rule)
    assert (await call(gateway, "a", "GET", "/api/v1/nodes")).status_code == 200
    assert (await call(gateway, "a", "GET", "/api/v1/nodes?watch=true")).status_code == 403
    assert (await call(gateway, "b", "GET", "/api/v1/nodes")).status_code == 403
    await call(gateway, "root", "DELETE", f"{RBAC}/clusterrolebindings/lookers")
    assert (await call(gateway, "a", "GET", "/api/v1/nodes")).status_code == 403


async def who(gateway: Fixture, token: str, **headers: str) -> Any:
    answer = await call(gateway, token, "POST", WHOAMI, {}, **headers)
    body = answer.json()
    return body["status"]["userInfo"] if answer.status_code == 201 else (answer.status_code, body["message"])


EVERYBODY = "system:authenticated"


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ({"impersonate_user": "eve"}, {"username": "eve", "groups": [EVERYBODY]}),
        ({"impersonate_user": "eve", "impersonate_group": "g"}, {"username": "eve", "groups": ["g", EVERYBODY]}),
        (
            {"impersonate_user": "eve", "impersonate_uid": "7"},
            {"username": "eve", "uid": "7", "groups": [EVERYBODY]},
        ),
        (
            {"impersonate_user": "system:serviceaccount:default:foo", "impersonate_extra_acme%2fx": "y"},
            {
                "username": "system:serviceaccount:default:foo",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:default", EVERYBODY],
                "extra": {"acme/x": ["y"]},
            },
        ),
    ],
)
async def test_on_behalf_of_somebody(tmp_path: Path, headers: dict[str, str], user: Any) -> None:
    assert await who(await gateway_of(tmp_path), "root", **headers) == user


async def test_on_behalf_of_nobody_one_is_not_authenticated(tmp_path: Path) -> None:
    told = 'User "system:anonymous" cannot create resource "selfsubjectreviews"'
    code, message = await who(await gateway_of(tmp_path), "root", impersonate_user="system:anonymous")
    assert (code, told in message) == (403, True)


async def test_who_names_something_of_a_user_names_the_user(tmp_path: Path) -> None:
    code, message = await who(await gateway_of(tmp_path), "root", impersonate_group="g")
    assert (code, message) == (400, "requested impersonate-group without impersonating a user")


async def test_only_those_who_may_act_on_behalf_of_others(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    told = (
        'users "eve" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope'
    )
    assert await who(gateway, "a", impersonate_user="eve") == (403, told)
    may = [
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["eve"]},
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["foo"]},
        {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/team"]},
    ]
    await allow(gateway, "actors", [{"kind": "User", "name": "ann"}], *may)
    assert (await who(gateway, "a", impersonate_user="eve"))["username"] == "eve"
    assert (await who(gateway, "a", impersonate_user="eve", impersonate_extra_team="x"))["extra"] == {"team": ["x"]}
    assert (await who(gateway, "a", impersonate_user="system:serviceaccount:any:foo"))["username"].endswith("foo")
    for headers, what in (
        ({"impersonate_user": "root"}, 'users "root"'),
        ({"impersonate_user": "eve", "impersonate_group": "system:masters"}, 'groups "system:masters"'),
        ({"impersonate_user": "eve", "impersonate_uid": "7"}, 'uids.authentication.k8s.io "7"'),
        ({"impersonate_user": "eve", "impersonate_extra_role": "x"}, 'userextras.authentication.k8s.io "x"'),
        ({"impersonate_user": "system:serviceaccount:any:bar"}, 'serviceaccounts "bar"'),
    ):
        code, message = await who(gateway, "a", **headers)
        assert (code, message.startswith(f"{what} is forbidden")) == (403, True), message


async def test_what_is_written_for_somebody_names_both_in_the_audit(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    rule = {"verbs": ["create"], "apiGroups": [""], "resources": ["nodes"]}
    await allow(gateway, "makers", [{"kind": "User", "name": "eve"}], rule)
    answer = await call(
        gateway, "root", "POST", "/api/v1/nodes?fieldManager=tool", {"metadata": {"name": "n"}}, impersonate_user="eve"
    )
    assert answer.status_code == 201
    event = [write.event for write in gateway.log.written if write.topic is AUDIT][-1]
    assert isinstance(event, Audited)
    assert (event.actor, event.user, event.groups, event.sender) == ("tool", "eve", [EVERYBODY], "root")
    assert (event.verb, event.outcome, event.resource) == ("create", "committed", "Node//n")


async def test_refusals_are_audited_once_for_a_flood_of_them(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    async with gateway.running():
        for _ in range(50):
            await call(gateway, "b", "GET", "/api/v1/nodes")
            await call(gateway, "a-secret-that-is-wrong", "GET", "/api/v1/nodes")
        await until(lambda: len(gateway.log.reported) >= 2)
        written_events = [write.event for write in gateway.log.reported]
    assert len(written_events) <= 4, "the first at once, and the rest together"
    assert all(isinstance(event, Audited) for event in written_events)
    events = [event for event in written_events if isinstance(event, Audited)]
    forbidden = next(event for event in events if event.outcome == "forbidden")
    assert (forbidden.user, forbidden.verb, forbidden.resource) == ("bob", "list", "nodes")
    assert 'User "bob" cannot list resource "nodes"' in forbidden.reason
    unknown = next(event for event in events if event.outcome == "unauthenticated")
    assert (unknown.user, unknown.resource, unknown.reason) == (
        "",
        "/api/v1/nodes",
        "the bearer token is not known, and is no JWT",
    )
    assert not any("secret" in event.model_dump_json() for event in events)


async def test_before_the_roles_are_read_only_masters_get_past_them(tmp_path: Path) -> None:
    file = written(tmp_path, "tokens.csv", TOKENS)
    gateway = Fixture(settings=Settings(token_auth_file=file), ready=False)
    told = (await call(gateway, "b", "GET", "/api/v1/nodes")).json()["message"]
    assert told.endswith("roles and bindings have not been read yet")
    assert (await call(gateway, "root", "GET", "/api/v1/nodes")).status_code == 503


async def test_health_is_open_to_everybody_and_nothing_beside_it(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    for path in ("/healthz", "/livez/ping", "/readyz"):
        assert (await call(gateway, "", "GET", path)).status_code == 200, path
    for path in ("/healthzz", "/livez-x/ping", "/metrics"):
        assert (await call(gateway, "", "GET", path)).status_code == 403, path
