"""`AuditEvent` (moorage.io/v1alpha1): a write or a refused request, with its user, in the fields of audit.k8s.io/v1."""

from __future__ import annotations

from pydantic import Field

from moorage_schemas.base import OpenModel, Timestamp
from moorage_schemas.resources.meta import Resource


class AuditedUser(OpenModel):
    """A user as the gateway has authenticated it, or as whom a request was made."""

    username: str = ""
    """Empty if the gateway has acted by itself, or the request had no valid credentials."""

    groups: list[str] = Field(default_factory=list)


class AuditedObject(OpenModel):
    """The object of a request."""

    resource: str = ""
    """The plural name of its kind, such as `nodes`."""

    kind: str = ""
    """Its kind. Audit events of Kubernetes do not have it."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""
    cluster: str = ""
    """The mirrored cluster that it is in. Empty for the home fleet."""


class AuditedResponse(OpenModel):
    """The outcome of a request."""

    status: str = ""
    """`Success` or `Failure`."""

    code: int | None = None
    """The HTTP status of a refused request: 401 or 403. Writes that succeeded have none."""

    reason: str = ""
    """`Unauthorized` or `Forbidden` for a refused request."""

    message: str = ""
    """Why it was refused, without credentials."""


class AuditEvent(Resource):
    """A write or a refused request, with its user. It has neither bodies nor headers of requests."""

    level: str = "Metadata"
    """Always `Metadata`: neither requests nor responses are recorded."""

    stage: str = "ResponseComplete"
    verb: str = ""
    request_uri: str = Field(default="", alias="requestURI")
    """The path of a refused request that is about no objects. It has no query."""

    user: AuditedUser = Field(default_factory=AuditedUser)
    """The sender of the request. Its groups are not recorded if it has impersonated another user."""

    impersonated_user: AuditedUser | None = None
    """As whom the request was made, if not as its sender."""

    source_ips: list[str] = Field(default_factory=list, alias="sourceIPs")
    """The address of the client. Only refused requests have it."""

    user_agent: str = ""
    """The program, as it names itself."""

    object_ref: AuditedObject | None = None
    response_status: AuditedResponse = Field(default_factory=AuditedResponse)
    request_received_timestamp: Timestamp
    count: int = 1
    """The number of requests that it stands for. Equal refusals within five seconds share one event."""
