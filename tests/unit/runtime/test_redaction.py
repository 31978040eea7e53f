"""Secrets in log lines."""

from __future__ import annotations

import io
import logging
import time
from typing import Any

import pytest
import structlog
from tests.support.tables import table

from moorage.runtime.process.logs import REDACTED, configure_logs, redact, redacted
from moorage.runtime.settings.process_settings import Settings

SECRET = "s3cr3tv4lue"  # noqa: S105 - one that is to be found nowhere
JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl"


@table(
    "key",
    [
        "authorization",
        "Authorization",
        "token",
        "access_token",
        "sasl_password",
        "X-Auth-Token",
        "client-secret",
        "cookie",
    ],
)
def test_values_of_secret_keys_are_taken_out(key: str) -> None:
    found = redact(None, "info", {"event": "x", key: SECRET, "headers": [(key.encode(), SECRET.encode())]})
    assert found[key] == REDACTED
    assert SECRET not in str(found)
    assert SECRET not in str(redact(None, "info", {"inner": {"deep": [{key: SECRET}]}}))


@pytest.mark.parametrize("key", ["key", "tokens_left", "secretary", "path", "topic", "id"])
def test_other_values_stay(key: str) -> None:
    assert redact(None, "info", {key: "value"}) == {key: "value"}


@table(
    ("text", "shown"),
    [
        (f"Bearer {SECRET}", f"Bearer {REDACTED}"),
        (f"got {JWT} from", f"got {REDACTED} from"),
        (f"https://ada:{SECRET}@host/path", f"https://ada:{REDACTED}@host/path"),
        (f"GET /x?token={SECRET}&a=b", f"GET /x?token={REDACTED}&a=b"),
        (f"{{'password': '{SECRET}', 'a': 1}}", f"{{'password': '{REDACTED}', 'a': 1}}"),
        (f"Authorization: {SECRET}", f"Authorization: {REDACTED}"),
        (f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----", REDACTED),
        (f"access_token={SECRET}", f"access_token={REDACTED}"),
        ("the token of the zone was used", "the token of the zone was used"),
        ("moorage.secrets.v1", "moorage.secrets.v1"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_line_of_the_log_has_a_secret(log_format: Any) -> None:
    out = io.StringIO()
    before = structlog.get_config(), logging.getLogger().handlers[:], logging.getLogger().level
    try:
        configure_logs(Settings(log_format=log_format), stream=out)

        def fails(password: str) -> None:
            raise ValueError(f"cannot log in with password={password}")

        try:
            fails(SECRET)
        except ValueError:
            structlog.get_logger("a").exception("failed", authorization=f"Bearer {SECRET}", why=f"token={SECRET}")
            logging.getLogger("b").exception("failed with Bearer %s", SECRET)
    finally:
        structlog.configure(**before[0])
        logging.getLogger().handlers[:] = before[1]
        logging.getLogger().setLevel(before[2])
    said = out.getvalue()
    assert SECRET not in said
    assert said.count(REDACTED) >= 4
    assert "cannot log in" in said


@pytest.mark.parametrize("text", ["a-" * 50_000, "token" * 20_000, "eyJ" * 30_000, "://" * 30_000, "bearer " * 20_000])
def test_no_text_takes_long(text: str) -> None:
    before = time.process_time()
    redacted(text)
    redact(None, "info", {text: text})
    assert time.process_time() - before < 1
