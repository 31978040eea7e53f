"""An embedded broker that asks everybody who they are: users, certificates and tokens, and an authorizer."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.support.certificates import Authority

from moorage.cli.contract import kafka_roles
from moorage.cli.local.stack import free_ports
from moorage.runtime.embedded import EmbeddedKafka, EmbeddedKafkaError
from moorage.runtime.embedded.broker_users import BrokerUsers
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin import acls
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings

PARTITIONS = 2
REAUTHENTICATED_MS = 2_000
"""After this time the broker closes connections of tokens, because aiokafka does not authenticate anew."""

_LOGIN = "org.apache.kafka.common.security"
ALLOWED_URLS = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={}"


class TokenIssuer:
    """Signs tokens (RS256), and writes its public key as a JWKS file."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": "one",
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [key]}))

    def token(self, subject: str, *, seconds: float = 300.0) -> str:
        """Return a token that is valid for so long; with a negative time, one that has expired."""
        now = time.time()
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        claims = {
            "sub": subject,
            "aud": "kafka",
            "iss": "https://issuer",
            "iat": int(now) - 600,
            "exp": int(now + seconds),
        }
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{_base64(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class _Listeners(BrokerUsers):
    """Adds a listener for client certificates, and one for users, passwords and tokens over TLS."""

    def __init__(self, users: dict[str, str], authority: Authority, issuer: TokenIssuer) -> None:
        super().__init__(users, superusers=(kafka_identities.USERS + kafka_identities.ADMIN,))
        self._authority = authority
        self._issuer = issuer
        self.tls_port = self.sasl_port = 0
        self.choose_ports()
        cert, key = authority.sign("kafka")
        self._store = authority.folder / "kafka-store.pem"
        self._store.write_bytes(key.read_bytes() + cert.read_bytes())

    def choose_ports(self) -> None:
        """Choose ports of the two listeners that are free now."""
        self.tls_port, self.sasl_port = free_ports(2)

    def properties(self, port: int, controller_port: int) -> dict[str, str]:
        found = super().properties(port, controller_port)
        own = f",TLS://127.0.0.1:{self.tls_port},USERS://127.0.0.1:{self.sasl_port}"
        users, mechanisms = "listener.name.users", "SCRAM-SHA-512,PLAIN,OAUTHBEARER"
        return found | {
            "listeners": found["listeners"] + own,
            "advertised.listeners": found["advertised.listeners"] + own,
            "listener.security.protocol.map": found["listener.security.protocol.map"] + ",TLS:SSL,USERS:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.certificate),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "listener.name.tls.ssl.client.auth": "required",
            f"{users}.sasl.enabled.mechanisms": mechanisms,
            f"{users}.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{users}.plain.sasl.jaas.config": f'{_LOGIN}.plain.PlainLoginModule required user_moorage-probe="plain";',
            f"{users}.oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
            f"{users}.oauthbearer.sasl.server.callback.handler.class": (
                f"{_LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            f"{users}.oauthbearer.connections.max.reauth.ms": str(REAUTHENTICATED_MS),
            f"{users}.sasl.oauthbearer.jwks.endpoint.url": self._issuer.jwks.as_uri(),
            f"{users}.sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.jwks.endpoint.url": self._issuer.jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
        }


class SecureBroker:
    """The broker, with the users of all roles, the topics of the table, and what the roles may do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identities = kafka_identities.folder_in(folder)
        self.authority = Authority(folder / "tls")
        self.issuer = TokenIssuer(folder)
        self.roles = [role.name for role in kafka_roles.roles()]
        passwords = kafka_identities.ensure(self.identities, (*self.roles, kafka_identities.ADMIN))
        users = {kafka_identities.USERS + role: password for role, password in passwords.items()}
        self._listeners = _Listeners(users, self.authority, self.issuer)
        self._kafka = EmbeddedKafka(folder / "kafka", users=self._listeners)

    async def start(self) -> None:
        """Start it, create the topics, and allow the roles what they need."""
        for again in (True, True, False):
            try:
                await self._kafka.start()
                break
            except EmbeddedKafkaError:  # other tests open ports, too, and one may have been taken meanwhile
                if not again:
                    raise
                self._listeners.choose_ports()
        await ensure_topics(self.settings(kafka_identities.ADMIN))
        await acls.created(self.settings(kafka_identities.ADMIN), kafka_roles.entries("moorage"))

    async def close(self) -> None:
        """End it."""
        await self._kafka.kill()

    def settings(self, role: str, **more: Any) -> Settings:
        """Return the settings of a client that is a role, by its user and password."""
        return self._settings(self._kafka.bootstrap, **kafka_identities.settings_of(self.identities, role), **more)

    def by_certificate(self, cert: Path, key: Path) -> Settings:
        """Return the settings of a client that shows a certificate."""
        return self._settings(
            f"127.0.0.1:{self._listeners.tls_port}",
            kafka_security_protocol="SSL",
            kafka_ca_file=str(self.authority.certificate),
            kafka_cert_file=str(cert),
            kafka_key_file=str(key),
        )

    def over_tls(self, mechanism: str, **more: Any) -> Settings:
        """Return the settings of a client that says who it is over TLS."""
        return self._settings(
            f"127.0.0.1:{self._listeners.sasl_port}",
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism=mechanism,
            kafka_ca_file=str(self.authority.certificate),
            **more,
        )

    @staticmethod
    def _settings(bootstrap: str, **more: Any) -> Settings:
        return Settings(bootstrap_servers=bootstrap, partitions=PARTITIONS, **more)
