"""Who looks at the console, what a form has to show, and that the API takes nothing from other sites' pages."""

from __future__ import annotations

import base64
import datetime as dt
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp
from tests.component.gateway.double import Fixture
from tests.component.gateway.test_access import allow
from tests.console.world import BROWSER, ConsoleWorld, some_fleet
from tests.support.identities import Issuer, written
from tests.support.tables import table
from tests.support.waiting import until

from moorage.apiserver.authentication.certificates import EXTENSION, ClientCertificate
from moorage.apiserver.http.app import ServedApi
from moorage.cli.local.pages import host_of
from moorage.console.api import api_path
from moorage.console.application import Console
from moorage.console.host import own_address
from moorage.console.pages import PAGES
from moorage.console.views import Action, Done, Form, PageView, required
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.dead_letter import Audited
from moorage_schemas.topics import AUDIT

TOKENS = 'root,root,0,"system:masters"\nann,ann,1\nbob,bob,2\n'
PLAIN, SECURE = "moorage-console", "__Host-moorage-console"
NODES = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["nodes"]}
LABELLED = {"verbs": ["get", "list", "patch"], "apiGroups": [""], "resources": ["nodes"]}


async def label(view: PageView, form: Form) -> Done:
    """An action for the tests: label a node."""
    name = required(form, "node")
    body = {"metadata": {"labels": {"seen": "yes"}}}
    path = api_path("api", "v1", "nodes", name)
    answer = await view.api.call("PATCH", path, body=body, content_type="application/merge-patch+json")
    answer.check()
    return Done(f"{name} is labelled.", f"/console/targets/Node/{name}")


def with_an_action(app: ASGIApp, api: ServedApi) -> ASGIApp:
    return Console(app, host_of(app, api), PAGES, (Action("/console/actions/label", label),))


async def world_of(folder: Path, **settings: Any) -> ConsoleWorld:
    """A console with tokens of `root`, `ann`, who may label nodes, and `bob`, who may look at them."""
    tokens = written(folder, "tokens.csv", TOKENS)
    world = ConsoleWorld(settings=Settings(token_auth_file=tokens, **settings), front=with_an_action)
    some_fleet(world)
    await allow(world, "labels", [{"kind": "User", "name": "ann"}], LABELLED)
    await allow(world, "nodes", [{"kind": "User", "name": "bob"}], NODES)
    return world


async def log_in(world: ConsoleWorld, token: str, goes_to: str = "/") -> Any:
    return await world.http.post("/console/login", data={"token": token, "next": goes_to}, headers={"accept": BROWSER})


def csrf_in(html: str) -> str:
    """What a page of a session gives its forms."""
    (found,) = set(re.findall(r'name="csrf" value="(\w+)"', html))
    return str(found)


def refusals(gateway: Fixture) -> list[Audited]:
    """The refusals that were audited."""
    return [one.event for one in gateway.log.reported if isinstance(one.event, Audited)]


async def csrf_of(world: ConsoleWorld, token: str) -> str:
    """Log in, and return what this session's forms send along."""
    await log_in(world, token)
    return csrf_in((await world.page("/")).text)


async def test_without_authentication_nobody_logs_in() -> None:
    world = ConsoleWorld()
    answer = await world.page("/")
    assert answer.status_code == 200
    assert "moorage:admin" in answer.text
    assert "Log out" not in answer.text


@pytest.mark.parametrize("path", ["/", "/console/targets?kind=Node&state=Ready", "/console/none"])
async def test_who_is_nobody_logs_in_and_goes_on_where_he_was(tmp_path: Path, path: str) -> None:
    world = await world_of(tmp_path)
    answer = await world.page(path)
    assert answer.status_code == 303
    login = answer.headers["location"]
    assert login.startswith("/console/login?next=")
    html = (await world.page(login)).text
    shown = re.search(r'name="next" value="([^"]*)"', html)
    assert shown is not None
    assert shown[1].replace("&amp;", "&") == path
    answer = await log_in(world, "root", path)
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert (await world.page(path)).status_code in {200, 404}


async def test_the_cookie_is_for_the_browser_alone(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    answer = await log_in(world, "bob")
    (cookie,) = answer.headers.get_list("set-cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    assert "Max-Age" not in cookie, "a browser forgets it when it is closed"
    assert cookie.startswith(f"{PLAIN}=")
    world.http.base_url = "https://localhost"
    (cookie,) = (await log_in(world, "bob")).headers.get_list("set-cookie")
    assert cookie.startswith(f"{SECURE}=")
    assert "Secure" in cookie


async def test_the_cookie_counts_for_the_console_and_not_for_the_api(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "root")
    assert (await world.page("/")).status_code == 200
    assert (await world.http.get("/api/v1/nodes")).status_code == 403, "as somebody who shows nothing"
    answer = await world.http.delete("/api/v1/nodes/n01")
    assert answer.status_code == 403
    assert "system:anonymous" in answer.json()["message"]


async def test_a_token_is_nowhere_but_in_the_cookie(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "s3cret-token-of-bob"  # noqa: S105 - of this test alone
    tokens = written(tmp_path, "tokens.csv", f'{secret},bob,2,"system:masters"\n')
    world = ConsoleWorld(settings=Settings(token_auth_file=tokens))
    some_fleet(world)
    answer = await log_in(world, secret)
    assert secret not in answer.text + str(answer.headers)
    refused = await log_in(world, f"{secret}x")
    assert secret not in refused.text + str(refused.headers)
    for path in ("/", "/console/targets/Node/n01", "/console/none", "/metrics"):
        page = await world.page(path)
        assert secret not in page.text
        assert base64.urlsafe_b64encode(secret.encode()).decode() not in page.text
    assert secret not in caplog.text


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("", "Enter a token."),
        ("wrong", "The gateway does not accept this token."),
        ("x" * 3_000, "The token is too long"),
        ("a b\x00", "expected printable ASCII characters"),
        ("émile", "expected printable ASCII characters"),
    ],
)
async def test_a_token_that_does_not_count(tmp_path: Path, token: str, told: str) -> None:
    world = await world_of(tmp_path)
    answer = await log_in(world, token)
    assert answer.status_code == 401
    assert told in answer.text
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text


async def test_a_session_ends_with_its_token_and_leads_back_to_the_page(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "bob")
    assert (await world.page("/console/targets")).status_code == 200
    (tmp_path / "tokens.csv").write_text('root,root,0,"system:masters"\n', "utf-8")
    answer = await world.page("/console/targets?state=Ready")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/console/login?next=%2Fconsole%2Ftargets%3Fstate%3DReady&ended=1"
    assert PLAIN not in world.http.cookies
    assert "is no longer valid" in (await world.page(answer.headers["location"])).text


async def test_an_expired_token_leads_to_the_login(tmp_path: Path) -> None:
    issuer = Issuer()
    keys = written(tmp_path, "keys.json", issuer.key_set)
    settings = Settings(oidc_issuer_url="https://issuer.example", oidc_client_id="moorage", oidc_jwks=keys)
    world = ConsoleWorld(settings=settings)
    assert (await log_in(world, issuer.token())).status_code == 303
    assert (await world.page("/")).status_code == 200
    old = issuer.token(now=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
    world.http.cookies.set(PLAIN, base64.urlsafe_b64encode(old.encode()).decode(), domain="localhost.local")
    world.http.cookies.clear()
    cookie = f"{PLAIN}={base64.urlsafe_b64encode(old.encode()).decode()}"
    answer = await world.page("/", headers={"cookie": cookie})
    assert answer.status_code == 303
    assert "ended=1" in answer.headers["location"]


@pytest.mark.parametrize("kept", ["%%%", "w", "a" * 5_000, '"', base64.urlsafe_b64encode(b"\xff\xfe").decode()])
async def test_a_cookie_that_is_none(tmp_path: Path, kept: str) -> None:
    world = await world_of(tmp_path)
    assert (await world.page("/", headers={"cookie": f"{PLAIN}={kept}"})).status_code == 303


async def test_whoever_logs_out_is_nobody(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "bob")
    html = (await world.page("/")).text
    assert (await world.http.post("/console/logout", data={"csrf": "no"})).status_code == 403
    assert (await world.page("/")).status_code == 200
    answer = await world.http.post("/console/logout", data={"csrf": csrf_in(html)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/login")
    assert (await world.page("/")).status_code == 303


async def test_a_client_certificate_needs_no_login(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    certificate = ClientCertificate("bob", (), "f" * 64)

    class WithCertificate:
        def __init__(self, app: ASGIApp) -> None:
            self._app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self._app({**scope, "extensions": {EXTENSION: certificate}}, receive, send)

    transport = httpx.ASGITransport(app=WithCertificate(world.app))
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as http:
        answer = await http.get("/", headers={"accept": BROWSER})
        assert answer.status_code == 200
        assert ">bob<" in answer.text
        form = {"node": "n01", "csrf": "0" * 64}
        assert (await http.post("/console/actions/label", data=form)).status_code == 403
        crossed = await http.patch(
            "/api/v1/nodes/n01",
            json={},
            headers={"sec-fetch-site": "cross-site", "content-type": "application/merge-patch+json"},
        )
        assert crossed.status_code == 403
        assert "pages of other sites" in crossed.json()["message"]


async def test_a_form_acts_as_its_user_through_the_api(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    csrf = await csrf_of(world, "ann")
    answer = await world.http.post("/console/actions/label", data={"node": "n01", "csrf": csrf})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/targets/Node/n01")
    assert "n01 is labelled." in (await world.page("/console/targets/Node/n01")).text
    assert "n01 is labelled." not in (await world.page("/console/targets/Node/n01")).text, "told once"
    written_by = [one.event for one in world.log.written if one.topic is AUDIT]
    assert any(isinstance(one, Audited) and one.user == "ann" and one.verb == "patch" for one in written_by)


async def test_an_action_without_the_right_is_refused_and_audited(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    async with world.running():
        csrf = await csrf_of(world, "bob")
        answer = await world.http.post("/console/actions/label", data={"node": "n01", "csrf": csrf})
        assert answer.status_code == 403
        assert "cannot patch resource" in answer.text
        await until(lambda: any(one.outcome == "forbidden" for one in refusals(world)))


async def test_the_causes_of_a_target_need_the_right_to_explain(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "bob")
    assert (await world.page("/console/targets/Node/n01")).status_code == 200
    answer = await world.page("/console/targets/Node/n01/why")
    assert answer.status_code == 403
    assert "cannot get resource &#34;explanations&#34;" in answer.text
    explains = {"verbs": ["get"], "apiGroups": ["moorage.io"], "resources": ["explanations"], "resourceNames": ["n01"]}
    await allow(world, "explains", [{"kind": "User", "name": "bob"}], explains)
    answer = await world.page("/console/targets/Node/n01/why")
    assert (answer.status_code, "No explanation available" in answer.text) == (200, True), "it has no query worker"
    assert (await world.page("/console/targets/Node/n02/why")).status_code == 403


@pytest.mark.parametrize(
    ("sent", "headers", "code"),
    [
        ("own", {}, 303),
        ("own", {"sec-fetch-site": "same-origin", "origin": "http://localhost"}, 303),
        ("own", {"origin": "http://localhost"}, 303),
        ("own", {"sec-fetch-site": "cross-site"}, 403),
        ("own", {"sec-fetch-site": "same-site"}, 403),
        ("own", {"origin": "http://localhost:3000"}, 403),
        ("own", {"origin": "https://evil.example"}, 403),
        ("own", {"origin": "null"}, 403),
        ("", {}, 403),
        ("bob's", {}, 403),
        ("é", {}, 403),
    ],
)
async def test_a_form_of_another_site_is_refused(tmp_path: Path, sent: str, headers: dict[str, str], code: int) -> None:
    world = await world_of(tmp_path)
    values = {"bob's": await csrf_of(world, "bob"), "own": await csrf_of(world, "ann")}
    csrf = values.get(sent, sent)
    answer = await world.http.post("/console/actions/label", data={"node": "n01", "csrf": csrf}, headers=headers)
    assert answer.status_code == code, answer.text
    patched = [one for one in world.log.written if one.key == "Node//n01"]
    assert bool(patched) == (code == 303)


async def test_a_login_by_a_form_of_another_site_is_refused(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        answer = await world.http.post("/console/login", data={"token": "bob"}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


@table(
    ("headers", "code"),
    [
        ({}, 201),
        ({"origin": "http://localhost"}, 201),
        ({"sec-fetch-site": "same-origin"}, 201),
        ({"sec-fetch-site": "none"}, 201),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://127.0.0.1:8080"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "http://evil.example", "authorization": "Bearer x"}, 403),
        ({"origin": "http://evil.example", "authorization": "Basic eDp5"}, 403),
        ({"sec-fetch-site": "cross-site", "authorization": "Negotiate eDp5"}, 403),
        ({"sec-fetch-site": "cross-site", "authorization": ""}, 403),
        ({"origin": "http://localhost", "authorization": "Basic eDp5"}, 201),
    ],
)
async def test_the_api_takes_no_writes_from_pages_of_other_sites(headers: dict[str, str], code: int) -> None:
    gateway = Fixture()
    async with gateway.running():
        answer = await gateway.call("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}, headers=headers)
        is_bearer = headers.get("authorization", "").startswith("Bearer")
        assert answer.status_code in {code, 401 if is_bearer else code}, answer.text
        read = await gateway.call(
            "GET", "/api/v1/nodes", headers={"sec-fetch-site": headers.get("sec-fetch-site", "none")}
        )
        assert read.status_code == 200
        if code == 403 and not is_bearer and "sec-fetch-site" in headers:
            assert answer.json()["kind"] == "Status"
            await until(lambda: any("other sites" in one.reason for one in refusals(gateway)))


async def test_a_form_that_is_none_is_refused(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "ann")
    path = "/console/actions/label"
    assert (await world.http.post(path, json={})).status_code == 415
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert (await world.http.post(path, content=b"a=%ff", headers=kind)).status_code == 400
    assert (await world.http.post(path, content=b"a&" * 2_000, headers=kind)).status_code == 400
    assert (await world.http.post(path, content=b"a" * 70_000, headers=kind)).status_code == 413
    assert (await world.http.get(path)).status_code == 404


async def test_what_the_user_may_not_see_is_said_and_not_shown(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "bob")
    html = (await world.page("/")).text
    assert "n01" in html
    assert "web-1" not in html
    assert "batch-1" not in html
    assert "You lack permission to list evictions." in html
    assert "You lack permission to list workload placements." in html
    html = (await world.page("/console/targets/Node/n01")).text
    assert "web-1" not in html
    for what in ("bindings", "evictions", "events"):
        assert f"You lack permission to list {what}." in html
    for path in ("/console/evictions", "/console/placements", "/console/placements?state=Pending"):
        html = (await world.page(path)).text
        assert "You lack permission to list" in html
        assert "web-1" not in html
    for path in ("/console/workloads/Pod/default/web-1", "/console/workloads/Pod/default/none"):
        answer = await world.page(path)
        assert answer.status_code == 403, "the same whether it is there"
        assert "cannot get resource" in answer.text


async def test_rights_in_one_namespace_show_that_namespace(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    rules = {"verbs": ["*"], "apiGroups": ["", "moorage.io"], "resources": ["*"]}
    root = {"authorization": "Bearer root"}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await world.ok(
        "POST", f"{rbac}/namespaces/default/roles", {"metadata": {"name": "all"}, "rules": [rules]}, headers=root
    )
    binding = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"},
        "subjects": [{"kind": "User", "name": "carl"}],
    }
    await world.ok("POST", f"{rbac}/namespaces/default/rolebindings", binding, headers=root)
    (tmp_path / "tokens.csv").write_text("c,carl,3\n", "utf-8")
    await log_in(world, "c")
    html = (await world.page("/")).text
    assert "You lack permission to list nodes." in html
    assert "web-1" in html
    assert "batch-1" in html
    assert (await world.page("/console/workloads/Pod/default/web-1")).status_code == 200
    assert (await world.page("/console/targets/Node/n01")).status_code == 403


async def test_who_acts_for_another_sees_what_that_one_may(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "root")
    html = (await world.page("/", headers={"impersonate-user": "bob"})).text
    assert ">bob<" in html
    assert "You lack permission to list evictions." in html
    await log_in(world, "bob")
    assert (await world.page("/", headers={"impersonate-user": "root"})).status_code == 403


async def test_a_value_of_a_form_counts_at_every_gateway(tmp_path: Path) -> None:
    key = Issuer()
    (tmp_path / "key.pem").write_bytes(key.pem)
    settings = {"service_account_signing_key_file": str(tmp_path / "key.pem")}
    first, second = await world_of(tmp_path, **settings), await world_of(tmp_path, **settings)
    values = []
    for world in (first, second):
        await log_in(world, "ann")
        values.append(csrf_in((await world.page("/")).text))
    assert values[0] == values[1]
    answer = await second.http.post("/console/actions/label", data={"node": "n01", "csrf": values[0]})
    assert answer.status_code == 303


async def test_a_host_name_that_is_not_the_gateways_is_refused() -> None:
    world = ConsoleWorld()
    answer = await world.page("/", headers={"host": "evil.example"})
    assert answer.status_code == 421


@table(
    ("given", "taken"),
    [
        ("/", "/"),
        ("/console/targets?kind=Node", "/console/targets?kind=Node"),
        ("", "/"),
        ("//evil.example/console/x", "/"),
        ("https://evil.example/console/x", "/"),
        ("/\\evil.example", "/"),
        ("/console/\\evil", "/"),
        ("/console/a\r\nset-cookie: x=y", "/"),
        ("javascript:alert(1)", "/"),
        ("/api/v1/nodes", "/"),
        ("http://[", "/"),
        ("/consoles", "/"),
    ],
)
def test_addresses_to_go_on_to_are_the_consoles_own(given: str, taken: str) -> None:
    assert own_address(given) == taken
