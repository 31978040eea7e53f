"""The settings that say who a process is for Kafka, and what follows from them for its clients."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from pydantic import SecretStr
from tests.support.certificates import Authority
from tests.support.tables import table

from moorage.cli.api import endpoints
from moorage.cli.errors import UsageError
from moorage.runtime.engine.journal import deciding
from moorage.runtime.kafka.clients.passwords import Password, SecretFileError
from moorage.runtime.kafka.clients.refusals import Refusals, refusal
from moorage.runtime.kafka.clients.security import RenewedContext, principal, security
from moorage.runtime.kafka.clients.tokens import ClientCredentials, TokenError, TokenFile
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings

_SECRET = "correct horse"  # noqa: S105 - a test's


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("MOORAGE_KAFKA_"):
            monkeypatch.delenv(name)


def _user(**more: Any) -> dict[str, Any]:
    scram = {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "SCRAM-SHA-512", "kafka_username": "me"}
    return {**scram, "kafka_password": _SECRET, **more}


def _oauth(**more: Any) -> dict[str, Any]:
    return {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "OAUTHBEARER", **more}


@table(
    ("given", "field", "rule"),
    [
        ({"kafka_security_protocol": "TLS"}, "kafka_security_protocol", "must be 'PLAINTEXT', 'SSL'"),
        ({"kafka_security_protocol": "SASL_SSL"}, "kafka_sasl_mechanism", "required with the security protocol"),
        ({"kafka_sasl_mechanism": "PLAIN"}, "kafka_sasl_mechanism", "only with the security protocols SASL_SSL"),
        (
            _user(kafka_security_protocol="SASL_PLAINTEXT", kafka_sasl_mechanism="PLAIN"),
            "kafka_sasl_mechanism",
            "because it sends the password as it is",
        ),
        (_user(kafka_username=""), "kafka_username", "required with the mechanism SCRAM-SHA-512"),
        (_user(kafka_password=""), "kafka_password_file", "unless MOORAGE_KAFKA_PASSWORD is set"),
        (_user(kafka_password_file=__file__), "kafka_password_file", "only one of it and MOORAGE_KAFKA_PASSWORD"),
        (_user(kafka_password="", kafka_password_file="/nowhere"), "kafka_password_file", "No such file"),  # noqa: S106 - no password
        ({"kafka_password": _SECRET}, "kafka_password", "only with the mechanisms PLAIN, SCRAM-SHA-256"),
        ({"kafka_username": "me"}, "kafka_username", "only with the mechanisms PLAIN, SCRAM-SHA-256"),
        ({"kafka_ca_file": __file__}, "kafka_ca_file", "only with the security protocols SSL and SASL_SSL"),
        (
            {"kafka_security_protocol": "SSL", "kafka_key_file": __file__},
            "kafka_key_file",
            "only with MOORAGE_KAFKA_CERT_FILE",
        ),
        (_oauth(), "kafka_oauth_token_endpoint", "unless MOORAGE_KAFKA_OAUTH_TOKEN_FILE is set"),
        (
            _oauth(kafka_oauth_token_file=__file__, kafka_oauth_token_endpoint="https://sso"),  # noqa: S106 - no password
            "kafka_oauth_token_endpoint",
            "only one of it and MOORAGE_KAFKA_OAUTH_TOKEN_FILE",
        ),
        (_oauth(kafka_oauth_token_endpoint="http://sso/token"), "kafka_oauth_token_endpoint", "must begin with https"),  # noqa: S106 - no password
        (_oauth(kafka_oauth_token_endpoint="https://sso"), "kafka_oauth_client_id", "required with"),  # noqa: S106 - no password
        (_user(kafka_oauth_token_file=__file__), "kafka_oauth_token_file", "only with the mechanism OAUTHBEARER"),
        ({"kafka_oauth_scope": "kafka"}, "kafka_oauth_scope", "only with MOORAGE_KAFKA_OAUTH_TOKEN_ENDPOINT"),
        ({"kafka_oauth_ca_file": __file__}, "kafka_oauth_ca_file", "only with MOORAGE_KAFKA_OAUTH_TOKEN_ENDPOINT"),
        (
            {"kafka_security_protocol": "SSL", "kafka_key_password_file": __file__},
            "kafka_key_password_file",
            "only with MOORAGE_KAFKA_CERT_FILE",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_field_value_and_rule(given: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(UsageError) as raised:
        endpoints.load_settings(**given)
    assert f"MOORAGE_{field.upper()}: invalid value " in str(raised.value)
    assert rule in str(raised.value)
    assert _SECRET not in str(raised.value)


def test_a_secret_is_never_shown() -> None:
    settings = Settings(**_user())
    shown = [
        repr(settings),
        str(settings),
        settings.model_dump_json(),
        repr(security(settings)),
        str(deciding(settings)),
    ]
    assert not [text for text in shown if _SECRET in text]
    with pytest.raises(ValueError, match="kafka_password") as raised:
        Settings(kafka_password=SecretStr(_SECRET))
    assert _SECRET not in str(raised.value)


def test_the_principal_is_named_as_acls_name_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("moorage-timer")
    tls: dict[str, Any] = {"kafka_security_protocol": "SSL", "kafka_cert_file": str(cert), "kafka_key_file": str(key)}
    assert principal(Settings()) == "User:ANONYMOUS"
    assert principal(Settings(**_user())) == "User:me"
    assert principal(Settings(**tls)) == "User:CN=moorage-timer,O=Example"


def test_a_password_is_read_when_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    password = Password(SecretStr(""), str(file))
    file.write_text("one\n")
    assert password.now() == "one"
    file.write_text(" two ")
    assert password.now() == " two "
    file.write_text("\n")
    with pytest.raises(SecretFileError, match="is empty"):
        password.now()
    file.unlink()
    with pytest.raises(SecretFileError, match="cannot be read: No such file"):
        password.now()


def _server_of(authority: Authority) -> ssl.SSLContext:
    """The context of a server that asks its clients for certificates."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.sign("kafka"))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.certificate)
    return server


def _serial(context: ssl.SSLContext, server: ssl.SSLContext) -> int:
    """Shake hands in memory, and return the serial number of the client's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    done = False
    while not done:
        done = True
        for side in (client, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                done = False
    found = other.getpeercert()
    assert found is not None
    return int(str(found["serialNumber"]), 16)


def test_a_certificate_that_changes_is_used_by_new_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = _server_of(authority)
    cert, key = authority.sign("client")
    context = RenewedContext.reading(str(authority.certificate), str(cert), str(key))
    before = _serial(context, server)
    assert _serial(context, server) == before
    new_cert, new_key = authority.sign("client", name="new")
    new_cert.replace(cert)
    assert _serial(context, server) == before, "the key does not fit yet"
    new_key.replace(key)
    assert _serial(context, server) != before


def test_files_that_are_no_certificates_are_refused_at_the_start(tmp_path: Path) -> None:
    cert, _ = Authority(tmp_path).sign("one")
    _, other = Authority(tmp_path / "other").sign("two")
    settings = Settings(kafka_security_protocol="SSL", kafka_cert_file=str(cert), kafka_key_file=str(other))
    with pytest.raises(
        RuntimeFailure, match=r"kafka_cert_file: invalid value '.*one.pem', kafka_key_file: .*must be PEM"
    ):
        security(settings)


def test_a_key_may_be_encrypted(tmp_path: Path) -> None:
    authority, password = Authority(tmp_path), tmp_path / "password"
    cert, key = authority.sign("client", password=_SECRET)
    server = _server_of(authority)
    files: dict[str, Any] = {
        "kafka_security_protocol": "SSL",
        "kafka_ca_file": str(authority.certificate),
        "kafka_cert_file": str(cert),
        "kafka_key_file": str(key),
    }
    with pytest.raises(RuntimeFailure, match="and the password that of the key"):
        security(Settings(**files))
    password.write_text("wrong")
    files["kafka_key_password_file"] = str(password)
    with pytest.raises(RuntimeFailure, match="kafka_key_password_file: invalid value"):
        security(Settings(**files))
    password.write_text(f"{_SECRET}\n")
    context = security(Settings(**files))["ssl_context"]
    before = _serial(context, server)
    for old, new in zip((cert, key), authority.sign("client", name="new", password="another"), strict=True):  # noqa: S106 - a test's
        new.replace(old)
    assert _serial(context, server) == before, "the password is still that of the key before"
    password.write_text("another")
    assert _serial(context, server) != before


async def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = TokenFile(str(file))
    with pytest.raises(TokenError, match="No such file"):
        await tokens.token()
    file.write_text("one.two.three\n")
    assert await tokens.token() == "one.two.three"
    file.write_text("four")
    assert await tokens.token() == "four"
    for wrong in ("a b", "a\x01b", "ä"):
        file.write_text(wrong)
        with pytest.raises(TokenError, match="holds no token") as raised:
            await tokens.token()
        assert wrong not in str(raised.value)


class _Server:
    """A token endpoint in memory."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.answer = httpx.Response(200, json={"access_token": "t1", "expires_in": 100})

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        await asyncio.sleep(0)
        return self.answer


async def test_client_credentials_are_requested_once_and_renewed_before_they_expire(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    server, now = _Server(), 0.0
    tokens = ClientCredentials(
        "https://sso/token",
        client_id="moorage-timer",
        secret_file=str(secret),
        scope="kafka",
        transport=httpx.MockTransport(server),
        now=lambda: now,
    )
    assert await asyncio.gather(*(tokens.token() for _ in range(9))) == ["t1"] * 9
    (asked,) = server.asked
    assert asked.content == b"grant_type=client_credentials&scope=kafka"
    assert asked.headers["authorization"].startswith("Basic ")
    server.answer = httpx.Response(200, json={"access_token": "t2", "expires_in": 100})
    now = 79.0
    assert await tokens.token() == "t1"
    now = 81.0
    assert await tokens.token() == "t2"


async def test_the_token_endpoint_may_have_an_authority_of_its_own(tmp_path: Path) -> None:
    authority, secret = Authority(tmp_path), tmp_path / "secret"
    secret.write_text(_SECRET)
    answer = b'{"access_token": "t1", "expires_in": 100}'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
        writer.write(b"content-length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("sso"))
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        endpoint = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
        given: dict[str, Any] = {"client_id": "me", "secret_file": str(secret)}
        with pytest.raises(TokenError, match="CERTIFICATE_VERIFY_FAILED"):
            await ClientCredentials(endpoint, **given).token()
        trusting = ClientCredentials(endpoint, **given, ca_file=str(authority.certificate))
        assert await trusting.token() == "t1"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (httpx.Response(401, json={"error": "invalid_client", "secret": _SECRET}), "status 401 invalid_client"),
        (httpx.Response(500, text=_SECRET), "status 500"),
        (httpx.Response(200, text="<html>"), "gave no token"),
        (httpx.Response(200, json=["access_token"]), "status 200"),
        (httpx.Response(200, json={}), "holds no token"),
        (httpx.Response(302, headers={"location": "https://elsewhere"}), "status 302"),
    ],
)
async def test_a_server_that_gives_no_token_is_told(tmp_path: Path, answer: httpx.Response, why: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    server = _Server()
    server.answer = answer
    tokens = ClientCredentials(
        "https://sso/token", client_id="me", secret_file=str(secret), transport=httpx.MockTransport(server)
    )
    with pytest.raises(TokenError, match=why) as raised:
        await tokens.token()
    assert _SECRET not in str(raised.value)


def test_refusals_are_told_in_words() -> None:
    def caused(error: Exception, cause: Exception) -> Exception:
        error.__cause__ = cause
        return error

    for error, text in (
        (
            TopicAuthorizationFailedError("moorage.taints.v1"),
            "User:me may not Read topic moorage.taints.v1: Kafka's ACLs",
        ),
        (TopicAuthorizationFailedError({"b", "a"}), "User:me may not Read topics a, b: "),
        (GroupAuthorizationFailedError("moorage.timer"), "User:me may not Read group moorage.timer: "),
        (
            TransactionalIdAuthorizationFailed("moorage.timer.3"),
            "User:me may not Write transactional id moorage.timer.3: ",
        ),
        (SaslAuthenticationFailed("invalid credentials"), "Kafka does not accept User:me: invalid credentials"),
        (caused(KafkaError("closed"), ssl.SSLError(1, "certificate expired")), "Kafka does not accept User:me: "),
        (ExceptionGroup("", [ValueError(), GroupAuthorizationFailedError("g")]), "User:me may not Read group g: "),
    ):
        assert refusal(error, "User:me").startswith(text)
    assert refusal(KafkaError("no answer"), "User:me") == ""


def test_a_refusal_is_shown_as_long_as_it_lasts() -> None:
    now = 0.0
    refusals = Refusals(lambda: now)
    refusals.note("b")
    refusals.note("a")
    now = 20.0
    refusals.note("a")
    assert refusals.current() == ["a", "b"]
    now = 40.0
    assert refusals.current() == ["a"]
    now = 60.0
    assert refusals.current() == []
