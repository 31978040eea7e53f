"""Gateways with HTTPS on a real broker: certificates and tokens, at the one that leads and through another one."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.brokers import Broker
from tests.support.certificates import Authority
from tests.support.gateways import running_gateway
from tests.support.identities import Issuer, written

from moorage.apiserver.authentication.certificates import ServerTls
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.server import authenticator_of, server_tls
from moorage.apiserver.storage.store import Store
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka

TOKENS = 'root-token,root,0,"system:masters"\nbob-token,bob,2\n'
ROOT = {"authorization": "Bearer root-token"}


def context(authority: Authority, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """What a client trusts, and its own certificate."""
    found = ssl.create_default_context(cafile=str(authority.certificate))
    if client is not None:
        found.load_cert_chain(*client)
    return found


def settings_of(broker: Broker, topic_prefix: str, folder: Path, authority: Authority, **more: Any) -> Settings:
    certificate, key = authority.sign("gateway")
    return Settings(
        bootstrap_servers=broker.bootstrap,
        topic_prefix=topic_prefix,
        partitions=3,
        gateway_port=0,
        tls_cert_file=str(certificate),
        tls_private_key_file=str(key),
        client_ca_file=str(authority.certificate),
        gateway_ca_file=str(authority.certificate),
        token_auth_file=written(folder, "tokens.csv", TOKENS),
        service_account_signing_key_file=written(folder, "signing.key", Issuer().pem),
        **more,
    )


async def test_certificates_and_tokens_count_at_every_gateway(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "pki")
    settings = settings_of(broker, topic_prefix, tmp_path, authority)
    trusted = context(authority)
    ann = context(authority, authority.sign("ann"))
    async with (
        running_gateway(settings, verify=trusted) as leading,
        running_gateway(settings, verify=trusted) as other,
        httpx.AsyncClient(base_url=leading.base_url, verify=ann) as ann_leading,
        httpx.AsyncClient(base_url=other.base_url, verify=ann) as ann_other,
    ):
        role = {"metadata": {"name": "makers"}, "rules": [RULE]}
        binding = {
            "metadata": {"name": "makers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "makers"},
            "subjects": [{"kind": "Group", "name": "Example"}],  # the organization of the certificate
        }
        for plural, document in (("clusterroles", role), ("clusterrolebindings", binding)):
            made = await other.post(f"/apis/rbac.authorization.k8s.io/v1/{plural}", json=document, headers=ROOT)
            assert made.status_code == 201, made.text
        for number, client in enumerate((ann_leading, ann_other)):
            made = await client.post("/api/v1/nodes", json={"metadata": {"name": f"n{number}"}})
            assert made.status_code == 201, made.text
        for client in (leading, other):
            assert (await client.post("/api/v1/nodes", json={"metadata": {"name": "x"}})).status_code == 403
            told = await client.post(
                "/api/v1/nodes", json={"metadata": {"name": "x"}}, headers={"authorization": "Bearer bob-token"}
            )
            assert 'User "bob" cannot create resource "nodes"' in told.json()["message"]
            refused = await client.post(
                "/api/v1/nodes", json={"metadata": {"name": "x"}}, headers={"authorization": "Bearer wrong"}
            )
            assert (refused.status_code, refused.json()["message"]) == (401, "Unauthorized")
        answer = await ann_other.post("/api/v1/nodes", json={}, headers={"impersonate-user": "root"})
        assert 'User "ann" cannot impersonate resource "users"' in answer.json()["message"]


RULE = {"verbs": ["create"], "apiGroups": [""], "resources": ["nodes"]}


async def test_a_certificate_of_another_authority_ends_the_connection(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    authority, stranger = Authority(tmp_path / "pki"), Authority(tmp_path / "other")
    settings = settings_of(broker, topic_prefix, tmp_path, authority)
    async with running_gateway(settings, verify=context(authority)) as gateway:
        for expired, signer in ((False, stranger), (True, authority)):
            forged = context(authority, signer.sign("ann", expired=expired))
            async with httpx.AsyncClient(base_url=gateway.base_url, verify=forged) as client:
                with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)):
                    await client.get("/api/v1/nodes")
        assert (await gateway.get("/readyz")).status_code == 200
        plain = str(gateway.base_url).replace("https", "http")
        async with httpx.AsyncClient(base_url=plain) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/readyz")


async def test_a_new_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.sign("gateway")
    tls = ServerTls(Settings(tls_cert_file=str(certificate), tls_private_key_file=str(key)))

    async def subject() -> Any:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context(authority))
            found = writer.get_extra_info("peercert")["subject"]
            writer.close()
        return dict(pair for part in found for pair in part)["commonName"]

    assert await subject() == "gateway"
    authority.sign("renewed", name="gateway")
    tls.refresh()
    assert await subject() == "renewed"
    certificate.write_text("broken")
    tls.refresh()
    assert await subject() == "renewed"


def test_files_that_cannot_be_used_end_the_start_with_their_names(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    certificate, _ = authority.sign("gateway")
    _, other_key = authority.sign("other")
    with pytest.raises(RuntimeFailure, match=r"MOORAGE_TLS_CERT_FILE: invalid value .* must be a PEM file"):
        server_tls(Settings(tls_cert_file=str(certificate), tls_private_key_file=str(other_key)))
    with pytest.raises(RuntimeFailure, match="No such file"):
        server_tls(Settings(tls_cert_file="/nowhere", tls_private_key_file=str(other_key)))


def test_whoever_listens_for_others_asks_who_they_are(tmp_path: Path) -> None:
    everywhere: dict[str, Any] = {"http_host": "0.0.0.0"}  # noqa: S104 - as in a container
    with pytest.raises(RuntimeFailure, match=r"MOORAGE_HTTP_HOST: invalid value '0\.0\.0\.0'"):
        authenticator_of(Settings(**everywhere), Store(), Metrics())
    file = written(tmp_path, "tokens.csv", TOKENS)
    authenticator_of(Settings(**everywhere, token_auth_file=file), Store(), Metrics())
