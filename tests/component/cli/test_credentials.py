"""What commands show the gateway of who sends them, and where they find it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Run, said, status
from tests.support.certificates import Authority
from tests.support.identities import written

from moorage.cli.api import kubeconfig, runfile
from moorage.cli.api.credentials import NONE, Credentials, first_of, of_environment
from moorage.cli.api.endpoints import Server
from moorage.cli.errors import CliError
from moorage.runtime.identities.gateway_identities import GatewayIdentities
from moorage.runtime.identities.local_certificates import LocalAuthority


def headers(shown: Credentials) -> Mapping[str, str]:
    return dict(shown.headers)


def test_a_token_is_never_shown_by_accident() -> None:
    assert "secret" not in repr(Credentials("secret", key_file="secret"))


@pytest.mark.parametrize(
    ("options", "environment", "token"),
    [
        ({"token": "a"}, {"MOORAGE_TOKEN": "b"}, "a"),
        ({}, {"MOORAGE_TOKEN": "b"}, "b"),
        ({}, {}, ""),
    ],
)
def test_options_come_before_the_environment(
    options: Any, environment: dict[str, str], token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert of_environment(options).token == token


def test_a_token_file_is_read_and_one_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_TOKEN_FILE", written(tmp_path, "t", " secret\n"))
    assert headers(of_environment({"as_user": "eve", "as_group": ["g"]})) == {
        "authorization": "Bearer secret",
        "impersonate-user": "eve",
        "impersonate-group": "g",
    }
    monkeypatch.setenv("MOORAGE_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(CliError, match="nothing: cannot be read: No such file"):
        of_environment({})


def test_who_names_a_token_names_all_of_who_one_is() -> None:
    context = Credentials("of-context", "CA", user="eve")
    assert first_of(NONE, context) == context
    assert first_of(Credentials("mine"), context) == Credentials("mine", "CA", user="eve")
    assert first_of(Credentials(cert_file="c", key_file="k"), context).token == ""


def entry(folder: Path, user: Mapping[str, Any], cluster: Mapping[str, Any]) -> Credentials:
    config = kubeconfig.document("https://127.0.0.1:1")
    config["users"][0]["user"] = dict(user)
    config["clusters"][0]["cluster"] |= cluster
    file = folder / "config"
    file.write_text(yaml.safe_dump(config))
    found = kubeconfig.chosen()
    assert found is not None
    return found.credentials()


def test_what_a_kubeconfig_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path / "state"))
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.sign("ann")
    pem = authority.certificate.read_text()
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in (("c", certificate), ("k", key))}
    written(tmp_path, "token", "from-file\n")
    assert headers(entry(tmp_path, {"token": "t"}, {})) == {"authorization": "Bearer t"}
    read = entry(tmp_path, {"tokenFile": "token"}, {})
    assert headers(read) == {"authorization": "Bearer from-file"}, "relative to the kubeconfig"
    trusted = entry(tmp_path, {}, {"certificate-authority": "pki/ca.pem"})
    assert trusted.ca_data == pem.strip()
    assert entry(tmp_path, {}, {"certificate-authority-data": base64.b64encode(pem.encode()).decode()}).ca_data == pem
    inside = entry(tmp_path, {"client-certificate-data": data["c"], "client-key-data": data["k"]}, {})
    assert isinstance(inside.tls(), ssl.SSLContext)
    assert Path(inside.key_file).stat().st_mode & 0o777 == 0o600
    beside = entry(tmp_path, {"client-certificate": "pki/ann.pem", "client-key": "pki/ann.key"}, {})
    assert isinstance(beside.tls(), ssl.SSLContext)
    with pytest.raises(CliError, match="certificate-authority-data is not base64"):
        entry(tmp_path, {}, {"certificate-authority-data": "%"})
    with pytest.raises(CliError, match="the client certificate or its key cannot be used"):
        entry(tmp_path, {"client-certificate": "pki/ann.pem", "client-key": "pki/ca.pem"}, {}).tls()


def test_a_kubeconfig_is_shown_without_its_secrets(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    config = kubeconfig.document("http://127.0.0.1:1", credentials=Credentials("secret"))
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    code, out, _ = said(run("config", "view"))
    assert code == 0
    assert "secret" not in out
    assert "token: REDACTED" in out


def test_a_refusal_is_told_as_kubectl_tells_it(gateway: FakeGateway, run: Run) -> None:
    gateway.refuse["GET /api/v1/nodes"] = status(401, "Unauthorized", "Unauthorized")
    code, _, err = said(run("get", "nodes"))
    assert (code, err) == (1, "error: You must be logged in to the server (Unauthorized)\n")


def test_identities_are_made_once_and_for_this_user_alone(tmp_path: Path) -> None:
    identities = GatewayIdentities.in_state(tmp_path)
    identities.ensure()
    files = (identities.tokens, identities.admin_token, identities.metrics_token, identities.signing_key)
    first = [file.read_bytes() for file in files]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert identities.folder.stat().st_mode & 0o777 == 0o700
    token = identities.admin_token.read_text().strip()
    metrics = identities.metrics_token.read_text().strip()
    administrator, monitoring = (
        f'{token},moorage:admin,,"system:masters"',
        f'{metrics},moorage:metrics,,"system:monitoring"',
    )
    assert identities.tokens.read_text() == f"{administrator}\n{monitoring}\n"
    identities.ensure()
    assert [file.read_bytes() for file in files] == first
    with identities.tokens.open("a") as file:
        file.write("of-ann,ann,\n")
    identities.admin_token.unlink()
    identities.ensure()
    lines = identities.tokens.read_text().splitlines()
    assert lines[2] == "of-ann,ann,", "what others have added stays"
    assert lines[3].startswith(identities.admin_token.read_text().strip())
    identities.tokens.unlink()
    identities.ensure()
    assert [line.partition(",")[0] for line in identities.tokens.read_text().splitlines()] == [
        identities.admin_token.read_text().strip(),
        metrics,
    ]


def test_identities_of_an_earlier_version_get_the_user_that_reads_metrics(tmp_path: Path) -> None:
    identities = GatewayIdentities.in_state(tmp_path)
    identities.ensure()
    administrator, _ = identities.tokens.read_text().splitlines(keepends=True)
    identities.tokens.write_text(administrator)
    identities.ensure()
    assert identities.tokens.read_text() == administrator, "who removes a user need not remove the file"
    identities.metrics_token.unlink()
    identities.ensure()
    token = identities.metrics_token.read_text().strip()
    assert identities.tokens.read_text() == f'{administrator}{token},moorage:metrics,,"system:monitoring"\n'


def test_a_certificate_is_renewed_before_it_ends(tmp_path: Path) -> None:
    local, now = LocalAuthority(tmp_path), datetime.now(UTC)
    local.ensure(now)
    first, trusted = local.server_certificate.read_bytes(), local.certificate.read_bytes()
    local.ensure(now + timedelta(days=300))
    assert local.server_certificate.read_bytes() == first
    local.ensure(now + timedelta(days=310))
    assert local.server_certificate.read_bytes() != first
    assert local.certificate.read_bytes() == trusted, "clients need not be told"
    local.ensure(now + timedelta(days=3_600))
    assert local.certificate.read_bytes() != trusted
    context = ssl.create_default_context(cafile=str(local.certificate))
    assert context.get_ca_certs()


def test_the_gateway_that_runs_here_is_shown_its_own_token_and_no_other_gateway_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    here = "http://127.0.0.1:1"
    running = runfile.Running(pid=1, server=here, bootstrap="b", topic_prefix="t", started="s")
    file = written(tmp_path, "admin.token", "secret\n")
    with runfile.claimed():
        runfile.write(running)
        assert Server(here, "here").credentials() == NONE, "its tokens are somebody else's"
        runfile.write(replace(running, gateway_token_file=file))
        assert headers(Server(here, "here").credentials()) == {"authorization": "Bearer secret"}
        assert Server("http://127.0.0.1:2", "another").credentials() == NONE
        runfile.write(replace(running, gateway_token_file=file, gateway_ca_file=str(tmp_path / "nothing")))
        assert Server(here, "here").credentials() == NONE, "which this user may not read"
    assert Server(here, "here").credentials() == NONE, "it has ended"
