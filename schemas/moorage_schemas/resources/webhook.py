"""`Webhook` (moorage.io/v1alpha1): where events are sent over HTTP."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp
from moorage_schemas.resources.meta import Resource


class WebhookEvent(StrEnum):
    """The events of a topic."""

    BINDINGS = "bindings"
    EVICTIONS = "evictions"
    PLACEMENTS = "placements"
    TAINTS = "taints"


class WebhookReplay(OpenModel):
    """A request to send again what was given up between two times."""

    since: Timestamp
    until: Timestamp


class WebhookSpec(OpenModel):
    """Where events are sent, and which."""

    url: str = ""
    """Required: `https://…`. Plain `http` is for loopback, unless `allowInsecure` is set."""

    secret_file: str = ""
    """Required: the name of a file with the secrets that sign, in the folder that the worker's setting
    `webhook_secrets_dir` names. It has one secret `whsec_…` a line. With several lines, each signs, so that a secret
    can be replaced."""

    events: tuple[WebhookEvent, ...] = (WebhookEvent.BINDINGS, WebhookEvent.EVICTIONS)
    namespaces: tuple[str, ...] | None = None
    """The namespaces of the workloads. If set, events that are about no workload are not sent."""

    targets: tuple[str, ...] | None = None
    """The targets, as patterns such as `Node/*`. If set, events that are about no single target are not sent."""

    timeout_seconds: int = Field(default=10, ge=1, le=60)
    """Seconds that an attempt may take."""

    retry_seconds: int = Field(default=86400, ge=0, le=604800)
    """Seconds after which an event that cannot be delivered is given up, from the time at which it was written."""

    allow_insecure: bool = False
    """Whether `http` may be used to other machines."""

    allow_private: bool = False
    """Whether the receiver may have an address that is not a public one: loopback, a private network, link-local."""

    replay: WebhookReplay | None = None
    """What is to be sent again: the events that were given up in this time."""


class Webhook(Resource):
    """A receiver of events over HTTP. Cluster-scoped."""

    spec: WebhookSpec = Field(default_factory=WebhookSpec)
