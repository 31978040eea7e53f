"""`moorage webhooks` with a gateway in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.component.cli.fake_gateway import FakeGateway, Run, said

from moorage_schemas.resources.webhook import WebhookSpec

PATH = "/apis/moorage.io/v1alpha1/webhooks/ops"
SPEC = {"url": "https://hooks.example.com", "secretFile": "ops", "events": ["taints"]}


def test_a_replay_is_asked_for_in_the_webhook(gateway: FakeGateway, run: Run) -> None:
    gateway.put(PATH, {"kind": "Webhook", "metadata": {"name": "ops"}, "spec": SPEC})
    code, out, _ = said(run("webhooks", "replay", "ops", "--since", "2h"))
    assert code == 0
    spec = WebhookSpec.model_validate(gateway.objects[PATH]["spec"])
    assert spec.replay is not None
    assert spec.replay.until - spec.replay.since == timedelta(hours=2)
    assert timedelta() <= datetime.now(UTC) - spec.replay.until < timedelta(minutes=1)
    assert (spec.url, spec.events) == ("https://hooks.example.com", ("taints",)), "the rest stays"
    assert out.startswith("webhook.moorage.io/ops: undelivered events since ")


def test_times_in_the_future_and_unknown_webhooks_are_refused(gateway: FakeGateway, run: Run) -> None:
    assert gateway.objects == {}
    code, _, error = said(run("webhooks", "replay", "ops", "--since", "2999-01-01T00:00:00Z"))
    assert code == 2
    assert "--since: invalid time '2999-01-01T00:00:00Z': must not be in the future" in error
    assert said(run("webhooks", "replay", "ops"))[0] == 1


def test_a_webhook_in_a_table(gateway: FakeGateway, run: Run) -> None:
    gateway.put(PATH, {"kind": "Webhook", "metadata": {"name": "ops"}, "spec": SPEC})
    out = said(run("get", "webhooks"))[1].splitlines()
    assert [line.split() for line in out] == [
        ["NAME", "URL", "EVENTS", "STATUS", "AGE"],
        ["ops", "https://hooks.example.com", "taints", "Unknown", "<unknown>"],
    ]
