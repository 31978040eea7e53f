"""Who calls the gateway: tokens that count, and those that do not."""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from tests.component.gateway.double import Fixture
from tests.support.identities import AUDIENCE, ISSUER, Issuer, written

from moorage.apiserver.authentication.jwts import (
    FRESH_SECONDS,
    PAUSE_SECONDS,
    FetchedKeys,
    InvalidCredentialsError,
    read_keys,
)
from moorage.runtime.settings.process_settings import Settings

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MASTERS = ["system:masters", "system:authenticated"]
TOKENS = '# comment\nsecret-of-ann,ann,u-1,"system:masters,builders"\nsecret-of-bob, bob, u-2\n'


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def settings_of(folder: Path, **more: Any) -> Settings:
    return Settings(token_auth_file=written(folder, "tokens.csv", TOKENS), **more)


async def who(gateway: Fixture, token: str = "", **headers: str) -> Any:
    """Who the gateway says that somebody is, or the code and the message of its refusal."""
    sent = {**(bearer(token) if token else {}), **headers}
    answer = await gateway.call("POST", WHOAMI, {}, headers=sent)
    body = answer.json()
    return body["status"]["userInfo"] if answer.status_code == 201 else (answer.status_code, body["message"])


async def test_without_settings_whoever_comes_from_this_machine_is_the_administrator() -> None:
    assert await who(Fixture()) == {"username": "moorage:admin", "groups": MASTERS}


async def test_static_tokens(tmp_path: Path) -> None:
    gateway = Fixture(settings=settings_of(tmp_path))
    ann = {"username": "ann", "uid": "u-1", "groups": ["system:masters", "builders", "system:authenticated"]}
    assert await who(gateway, "secret-of-ann") == ann
    assert await who(gateway, "secret-of-an") == (401, "Unauthorized")
    answer = await gateway.call("GET", "/api/v1/pods", headers={"authorization": "bearer secret-of-ann"})
    assert answer.status_code == 200, "the scheme has no case"
    refused = await gateway.call("GET", "/api/v1/pods")
    told = 'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope'
    assert (refused.status_code, refused.json()["message"]) == (403, told)


async def test_a_token_file_that_changes_counts_at_once_and_a_broken_one_not_at_all(tmp_path: Path) -> None:
    gateway = Fixture(settings=settings_of(tmp_path))
    written(tmp_path, "tokens.csv", 'other,ann,u-1,"system:masters"\n')
    assert (await who(gateway, "other"))["username"] == "ann"
    assert await who(gateway, "secret-of-ann") == (401, "Unauthorized")
    written(tmp_path, "tokens.csv", "broken\n")
    assert (await who(gateway, "other"))["username"] == "ann"
    (tmp_path / "tokens.csv").unlink()
    assert (await who(gateway, "other"))["username"] == "ann"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a,b\n", "line 1: must have a token, a user and a uid"),
        ("\n,ann,1\n", "line 2: the token must not be empty"),
        ("x,,1\n", "line 1: the user must not be empty"),
        ("x,ann,1\nx,bob,2\n", "line 2: an earlier line has the same token"),
    ],
)
def test_a_token_file_with_a_mistake_is_refused_at_the_start_without_its_tokens(
    tmp_path: Path, content: str, told: str
) -> None:
    with pytest.raises(ValueError, match="MOORAGE_TOKEN_AUTH_FILE: invalid value") as error:
        Fixture(settings=Settings(token_auth_file=written(tmp_path, "tokens.csv", content)))
    assert told in str(error.value)
    assert "x," not in str(error.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(OSError, match=r"MOORAGE_TOKEN_AUTH_FILE: invalid value '/nowhere': cannot be read"):
        Fixture(settings=Settings(token_auth_file="/nowhere"))  # noqa: S106 - a path


def oidc(folder: Path, issuer: Issuer, **more: Any) -> Fixture:
    where = written(folder, "keys.json", issuer.key_set)
    found = Settings(oidc_issuer_url=ISSUER, oidc_client_id=f"other,{AUDIENCE}", oidc_jwks=where, **more)
    return Fixture(settings=found)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_jwts_of_an_issuer(tmp_path: Path, algorithm: str) -> None:
    issuer = Issuer(algorithm)
    gateway = oidc(tmp_path, issuer, oidc_groups_claim="groups", oidc_groups_prefix="ext:")
    token = issuer.token(groups=["a", "b"])
    assert await named_by(gateway, token) == f'User "{ISSUER}#ann" cannot list'
    assert await named_by(gateway, issuer.token(groups="one")) == f'User "{ISSUER}#ann" cannot list'


async def named_by(gateway: Fixture, token: str) -> str:
    """As whom a token is known, from the words in which it is refused. Empty if it does not count."""
    answer = await gateway.call("GET", "/api/v1/pods", headers=bearer(token))
    if answer.status_code == 401:
        return ""
    message: str = answer.json()["message"]
    return message[message.index("User") : message.index(" resource")]


@pytest.mark.parametrize(
    ("more", "claims", "name"),
    [
        ({"oidc_username_prefix": "-"}, {}, "ann"),
        ({"oidc_username_prefix": "x:"}, {}, "x:ann"),
        ({"oidc_username_claim": "email"}, {"email": "a@b.c", "email_verified": True}, "a@b.c"),
        ({"oidc_username_claim": "email"}, {"email": "a@b.c"}, "a@b.c"),
        ({"oidc_username_claim": "nick"}, {"nick": "Ann"}, f"{ISSUER}#Ann"),
        ({"oidc_username_claim": "email"}, {"email": "a@b.c", "email_verified": False}, None),
        ({"oidc_username_claim": "nick"}, {"nick": ""}, None),
        ({"oidc_username_claim": "nick"}, {}, None),
        ({"oidc_groups_claim": "g"}, {"g": [1]}, None),
    ],
)
async def test_which_claim_names_the_user(
    tmp_path: Path, more: dict[str, str], claims: dict[str, Any], name: str | None
) -> None:
    issuer = Issuer()
    gateway = oidc(tmp_path, issuer, **more)
    expected = f'User "{name}" cannot list' if name else ""
    assert await named_by(gateway, issuer.token(**claims)) == expected


def minutes(number: float) -> dt.timedelta:
    """A time relative to that of the test."""
    return dt.timedelta(minutes=number)


@pytest.mark.parametrize(
    ("claims", "counts"),
    [
        ({"iss": "https://other.example"}, False),
        ({"iss": None}, False),
        ({"aud": "nobody"}, False),
        ({"aud": None}, False),
        ({"aud": ["x", AUDIENCE]}, True),
        ({"exp": None}, False),
        ({"exp": minutes(-1)}, False),
        ({"exp": minutes(-0.05)}, True),  # within the clock skew
        ({"nbf": minutes(1)}, False),
        ({"nbf": minutes(0.05)}, True),
        ({"iat": minutes(1)}, False),
        ({"sub": None}, False),
        ({"sub": ["ann"]}, False),
    ],
)
async def test_what_a_token_has_to_say(tmp_path: Path, claims: dict[str, Any], counts: bool) -> None:  # noqa: FBT001 - a column
    issuer, now = Issuer(), dt.datetime.now(dt.UTC)
    said: dict[str, Any] = {
        name: now + value if isinstance(value, dt.timedelta) else value for name, value in claims.items()
    }
    assert bool(await named_by(oidc(tmp_path, issuer), issuer.token(**said))) is counts


async def test_forged_tokens(tmp_path: Path) -> None:
    issuer, other = Issuer("RS256"), Issuer("RS256")
    gateway = oidc(tmp_path, issuer)
    good = issuer.token()
    head, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**claims, "sub": "root"}).encode()).rstrip(b"=").decode()
    none = base64.urlsafe_b64encode(b'{"alg":"none","kid":"first"}').rstrip(b"=").decode()
    secret = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').rstrip(b"=").decode()
    # A server that takes the public key for the secret of HS256 would let everybody sign.
    mac = jwt.get_algorithm_by_name("HS256").sign(f"{secret}.{forged}".encode(), issuer.public_pem)
    hashed = base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
    assert await named_by(gateway, good)
    for token in (
        f"{head}.{forged}.{signature}",
        f"{none}.{forged}.",
        f"{secret}.{forged}.{hashed}",
        other.token(),
        f"{head}.{body}.",
        good[:-4],
        "a.b.c",
        "." * 2,
        "x" * 20_000,
        good + "." + good,
    ):
        assert await named_by(gateway, token) == "", token[:80]


async def test_an_algorithm_that_is_not_allowed(tmp_path: Path) -> None:
    issuer = Issuer("ES256")
    assert await named_by(oidc(tmp_path, issuer, oidc_signing_algs="RS256"), issuer.token()) == ""


async def test_keys_in_a_file_are_rotated(tmp_path: Path) -> None:
    first, second = Issuer(key_id="a"), Issuer(key_id="b")
    gateway = oidc(tmp_path, first)
    assert await named_by(gateway, second.token()) == ""
    written(tmp_path, "keys.json", second.key_set)
    assert await named_by(gateway, second.token())
    assert await named_by(gateway, first.token()) == ""


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": {}}', '{"keys": []}', '{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]}']
)
def test_key_sets_without_a_usable_key(text: str) -> None:
    with pytest.raises(ValueError, match="JSON Web Key Set"):
        read_keys(text)


def test_keys_for_encryption_are_left_out() -> None:
    one, two = Issuer(key_id="a"), Issuer("RS256", key_id="b")
    text = json.dumps({"keys": [{**one.public, "use": "enc"}, two.public, {"kty": "EC", "crv": "P-999"}, 7]})
    assert [key.key_id for key in read_keys(text)] == ["b"]


class Endpoint:
    """An issuer's web server."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.asked: list[str] = []
        self.away = False
        self.said_issuer = ISSUER
        self.now = 0.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if self.away:
            raise httpx.ConnectError("refused")
        if request.url.path == "/.well-known/openid-configuration":
            return httpx.Response(200, json={"issuer": self.said_issuer, "jwks_uri": f"{ISSUER}/keys"})
        return httpx.Response(200, text=self.issuer.key_set)

    def keys(self, *, discovered: bool = True) -> FetchedKeys:
        return FetchedKeys(
            ISSUER if discovered else f"{ISSUER}/keys",
            discovered=discovered,
            transport=httpx.MockTransport(self),
            clock=lambda: self.now,
        )


async def test_keys_are_fetched_once_and_again_when_they_are_old() -> None:
    endpoint = Endpoint(Issuer())
    keys = endpoint.keys()
    for _ in range(3):
        assert [key.key_id for key in await keys.candidates("first")] == ["first"]
    assert endpoint.asked == ["/.well-known/openid-configuration", "/keys"]
    endpoint.now = FRESH_SECONDS
    endpoint.issuer = Issuer(key_id="second")
    with pytest.raises(InvalidCredentialsError, match="'first' is not among the issuer's"):
        await keys.candidates("first")
    await keys.close()


async def test_tokens_with_unknown_keys_do_not_make_the_gateway_flood_the_issuer() -> None:
    endpoint = Endpoint(Issuer())
    keys = endpoint.keys(discovered=False)
    for number in range(50):
        with pytest.raises(InvalidCredentialsError):
            await keys.candidates(f"k{number}")
    assert endpoint.asked == ["/keys"]
    endpoint.issuer = Issuer(key_id="k7")
    endpoint.now = PAUSE_SECONDS
    assert len(await keys.candidates("k7")) == 1
    await keys.close()


async def test_an_issuer_that_is_away_locks_nobody_out_whose_key_is_known() -> None:
    endpoint = Endpoint(Issuer())
    keys = endpoint.keys(discovered=False)
    await keys.candidates("first")
    endpoint.away, endpoint.now = True, FRESH_SECONDS
    assert len(await keys.candidates("first")) == 1
    with pytest.raises(InvalidCredentialsError, match="they cannot be fetched: refused"):
        await keys.candidates("second")
    await keys.close()


async def test_the_discovery_document_of_another_issuer_is_not_believed() -> None:
    endpoint = Endpoint(Issuer())
    endpoint.said_issuer = "https://other.example"
    with pytest.raises(InvalidCredentialsError, match="is of another issuer"):
        await endpoint.keys().candidates("first")


async def test_anonymous_requests_can_be_refused_altogether(tmp_path: Path) -> None:
    gateway = Fixture(settings=settings_of(tmp_path, anonymous_auth=False))
    assert await who(gateway) == (401, "Unauthorized")
    assert (await gateway.call("GET", "/readyz")).status_code == 200, "health is for everybody"


async def test_the_administrator_of_this_machine_beside_tokens(tmp_path: Path) -> None:
    gateway = Fixture(settings=settings_of(tmp_path, loopback_admin=True))
    assert (await who(gateway))["username"] == "moorage:admin"
    assert await who(gateway, "wrong") == (401, "Unauthorized"), "whoever shows a token means it"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tls_cert_file": "a"}, "MOORAGE_TLS_CERT_FILE must be set if and only if this is"),
        ({"tls_private_key_file": "a"}, "MOORAGE_TLS_CERT_FILE must be set if and only if this is"),
        ({"client_ca_file": "a"}, "client certificates need HTTPS"),
        ({"oidc_issuer_url": ISSUER}, "MOORAGE_OIDC_ISSUER_URL must be set if and only if this is"),
        ({"oidc_signing_algs": "HS256"}, "'HS256' must be one of RS256"),
        ({"oidc_signing_algs": "none"}, "'none' must be one of RS256"),
        ({"http_host": "0.0.0.0", "loopback_admin": True}, "would also be the administrator"),  # noqa: S104 - refused
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Settings(**given)


async def test_attempts_are_counted_without_anything_of_the_token(tmp_path: Path) -> None:
    gateway = Fixture(settings=settings_of(tmp_path))
    await who(gateway, "secret-of-ann")
    await who(gateway, "wrong-secret")
    text = (await gateway.call("GET", "/metrics", headers=bearer("secret-of-ann"))).text
    assert 'moorage_gateway_authentications_total{method="token",result="refused"} 1.0' in text
    assert 'moorage_gateway_refused_total{code="401"} 1.0' in text
    assert "secret" not in text
