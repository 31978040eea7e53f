"""Tokens of service accounts: TokenRequest, TokenReview, and until when they count."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.component.gateway.double import Fixture, Json
from tests.support.identities import Issuer, written

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.dead_letter import Audited
from moorage_schemas.topics import AUDIT

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ISSUER = "https://moorage.local"


def gateway_of(folder: Path, key: Issuer | None = None, **more: Any) -> Fixture:
    """A gateway whose clock is the machine's, because tokens are checked by that."""
    file = written(folder, "signing.key", (key or Issuer()).pem)
    gateway = Fixture(settings=Settings(service_account_signing_key_file=file, **more))
    gateway.clock.time = dt.datetime.now(dt.UTC)
    return gateway


async def token_of(gateway: Fixture, name: str = "default", **spec: Any) -> str:
    answer = await gateway.ok("POST", f"{ACCOUNTS}/{name}/token", {**REQUEST, "spec": spec})
    token: str = answer["status"]["token"]
    return token


async def review(gateway: Fixture, token: str, *audiences: str) -> Json:
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    found: Json = (await gateway.ok("POST", REVIEWS, {"spec": spec}))["status"]
    return found


async def test_a_token_as_kubernetes_gives_it_out(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    made = await gateway.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    uid = made["metadata"]["uid"]
    answer = await gateway.ok("POST", f"{ACCOUNTS}/robot/token", REQUEST)
    token, until = answer["status"]["token"], answer["status"]["expirationTimestamp"]
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert {name: answer["metadata"][name] for name in ("name", "namespace", "uid")} == {
        "name": "robot",
        "namespace": "default",
        "uid": uid,
    }
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 3600
    assert dt.datetime.fromisoformat(until).timestamp() == claims["exp"]
    assert (claims["sub"], claims["aud"], claims["iss"]) == ("system:serviceaccount:default:robot", [ISSUER], ISSUER)
    assert claims["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}}
    groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert await review(gateway, token) == {
        "authenticated": True,
        "user": {
            "username": "system:serviceaccount:default:robot",
            "uid": uid,
            "groups": groups,
            "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]},
        },
        "audiences": [ISSUER],
    }


async def test_a_token_is_audited_and_not_shown_there(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    token = await token_of(gateway)
    events = [write.event for write in gateway.log.reported if write.topic is AUDIT]
    [event] = events
    assert isinstance(event, Audited)
    assert (event.verb, event.resource, event.user) == (
        "create/token",
        "ServiceAccount/default/default",
        "moorage:admin",
    )
    assert token not in event.model_dump_json()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_each_kind_of_key_and_others_find_the_public_one(tmp_path: Path, algorithm: str) -> None:
    gateway = gateway_of(tmp_path, Issuer(algorithm))
    token = await token_of(gateway)
    found = await gateway.ok("GET", "/.well-known/openid-configuration")
    assert (found["issuer"], found["id_token_signing_alg_values_supported"]) == (ISSUER, [algorithm])
    keys = jwt.PyJWKSet.from_dict(await gateway.ok("GET", found["jwks_uri"]))
    claims = jwt.decode(
        token, keys[jwt.get_unverified_header(token)["kid"]], algorithms=[algorithm], audience=ISSUER, issuer=ISSUER
    )
    assert claims["sub"] == "system:serviceaccount:default:default"


async def test_a_token_ends_with_its_account(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    await gateway.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    token = await token_of(gateway, "robot")
    assert (await review(gateway, token))["authenticated"]
    await gateway.ok("DELETE", f"{ACCOUNTS}/robot")
    assert "authenticated" not in await review(gateway, token)
    await gateway.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert "authenticated" not in await review(gateway, token), "the new account is another one"


async def test_a_token_ends_with_the_pod_that_it_depends_on(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    pod = await gateway.ok("POST", "/api/v1/namespaces/default/pods", POD)
    uid = pod["metadata"]["uid"]
    token = await token_of(gateway, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    user = (await review(gateway, token))["user"]
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [uid]
    await gateway.ok("DELETE", "/api/v1/namespaces/default/pods/p")
    assert await review(gateway, token) == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ({"spec": {"expirationSeconds": 5}}, 422, "may not specify a duration less than 10 minutes"),
        ({"spec": {"expirationSeconds": 2**32 + 1}}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"metadata": {"name": "x"}}, 422, "must match the service account name if specified"),
        ({"metadata": {"namespace": "x"}}, 400, "does not match the namespace sent on the request"),
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "no"}}}, 404, 'pods "no" not found'),
        (
            {"spec": {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "d"}}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        ({"kind": "Pod"}, 400, ""),
    ],
)
async def test_requests_for_tokens_that_are_refused(tmp_path: Path, body: Any, code: int, told: str) -> None:
    answer = await gateway_of(tmp_path).call("POST", f"{ACCOUNTS}/default/token", {**REQUEST, **body})
    assert answer.status_code == code, answer.text
    assert told in answer.json()["message"]


async def test_another_pod_of_the_name_and_another_account_of_the_pod(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    await gateway.ok("POST", "/api/v1/namespaces/default/pods", POD)
    await gateway.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    for name, reference, code in (("default", {**bound, "uid": "other"}, 409), ("robot", bound, 400)):
        body = {**REQUEST, "spec": {"boundObjectRef": reference}}
        assert (await gateway.call("POST", f"{ACCOUNTS}/{name}/token", body)).status_code == code


async def test_without_a_key_no_tokens_are_given_out() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", f"{ACCOUNTS}/default/token", REQUEST)
    assert (answer.status_code, "SIGNING_KEY_FILE is not set" in answer.json()["message"]) == (501, True)
    assert (await gateway.call("GET", "/openid/v1/jwks")).status_code == 404
    assert "/openid/v1/jwks" not in (await gateway.ok("GET", "/"))["paths"]


async def test_a_longest_time_and_a_dry_run(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path, service_account_max_token_expiration=900)
    answer = await gateway.call("POST", f"{ACCOUNTS}/default/token", {**REQUEST, "spec": {"expirationSeconds": 3600}})
    assert answer.json()["spec"]["expirationSeconds"] == 900
    assert "requested expiration of 3600 seconds shortened to 900 seconds" in answer.headers["warning"]
    dry = await gateway.ok("POST", f"{ACCOUNTS}/default/token?dryRun=All", REQUEST)
    assert dry["status"]["token"] == ""


async def test_audiences(tmp_path: Path) -> None:
    gateway = gateway_of(tmp_path)
    token = await token_of(gateway, audiences=["vault", "other"])
    assert "authenticated" not in await review(gateway, token), "it is not for this API"
    assert (await review(gateway, token, "vault", "x"))["audiences"] == ["vault"]
    headers = {"authorization": f"Bearer {token}"}
    assert (await gateway.call("GET", "/api/v1/pods", headers=headers)).status_code == 401


async def test_a_review_needs_a_token_and_knows_static_ones(tmp_path: Path) -> None:
    file = written(tmp_path, "tokens.csv", "t-of-ann,ann,1\n")
    gateway = gateway_of(tmp_path, token_auth_file=file, loopback_admin=True)
    assert (await gateway.call("POST", REVIEWS, {"spec": {}})).status_code == 400
    assert (await review(gateway, "t-of-ann"))["user"]["username"] == "ann"
    assert "authenticated" not in await review(gateway, "t-of-ann", "vault")
    assert await review(gateway, "t-of-eve") == {"user": {}, "error": "invalid bearer token"}


async def test_a_key_that_was_replaced_still_counts_while_it_is_named(tmp_path: Path) -> None:
    old, new = Issuer(), Issuer()
    token = await token_of(gateway_of(tmp_path, old))
    public = written(tmp_path, "old.pub", old.public_pem)
    # The built-in account is the same one in both gateways, for its uid follows from its namespace.
    assert "authenticated" in await review(gateway_of(tmp_path, new, service_account_key_file=public), token)
    assert "authenticated" not in await review(gateway_of(tmp_path, new), token)


async def test_a_token_of_another_subject_or_without_an_account(tmp_path: Path) -> None:
    key = Issuer()
    gateway = gateway_of(tmp_path, key)
    good = jwt.decode(await token_of(gateway), options={"verify_signature": False})
    kid = jwt.get_unverified_header(await token_of(gateway))["kid"]
    changes: list[dict[str, Any]] = [
        {"sub": "system:serviceaccount:kube-system:root"},
        {"kubernetes.io": None},
        {"kubernetes.io": {"namespace": "default"}},
        {"exp": int(dt.datetime.now(dt.UTC).timestamp()) - 60},
        {"aud": []},
    ]
    for change in changes:
        forged = jwt.encode({**good, **change}, key.key, algorithm="ES256", headers={"kid": kid})
        assert "authenticated" not in await review(gateway, forged), change


async def test_before_the_tables_are_read_an_account_is_not_known_to_be_gone(tmp_path: Path) -> None:
    token = await token_of(gateway_of(tmp_path))
    starting = Fixture(settings=Settings(service_account_signing_key_file=str(tmp_path / "signing.key")), ready=False)
    answer = await starting.call("GET", "/api/v1/pods", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("content", ["nothing", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_without_a_key_is_named(tmp_path: Path, content: str) -> None:
    file = written(tmp_path, "signing.key", content)
    with pytest.raises(ValueError, match="MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE: invalid value"):
        Fixture(settings=Settings(service_account_signing_key_file=file))
