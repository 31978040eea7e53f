"""The subresource `token` of service accounts: gives out tokens (TokenRequest).

Source: `k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go` and `pkg/apis/authentication/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.authentication.account_tokens import ObjectOfToken, RequestedToken
from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, decoding
from moorage.apiserver.http.messages.answers import warn
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.negotiation import JSON, PROTOBUF, YAML, accepted
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.writing import caller
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import bad_request
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage_schemas.times import format_time

KIND: Final = Expected("authentication.k8s.io", "v1", "TokenRequest")
DEFAULT_SECONDS: Final = 3_600
LEAST_SECONDS: Final = 600
MOST_SECONDS: Final = 1 << 32

_BOUND: Final = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}
"""The kinds of objects on which a token may depend, with the plurals."""

Document = dict[str, Any]


async def request_token(backend: Backend, request: Request, path: ResourcePath) -> Response:
    """Give out a token of a service account.

    Raises:
        StatusError: 404 if there is no such account, or not what the token is to depend on; 409 if that is another one;
            422 if the request is invalid; 501 if no tokens are given out here.
    """
    paths.check_method(request, "POST")
    options = write_options(request.query_params, "CreateOptions")
    form = accepted(request, (JSON, YAML, PROTOBUF))
    sent = await decoding.read_object(request, KIND, options.field_validation)
    document = sent.document
    decoding.check_type(document, KIND)
    account = backend.present(path)
    metadata, spec = dict(document.get("metadata") or {}), dict(document.get("spec") or {})
    seconds = spec.get("expirationSeconds")
    seconds = DEFAULT_SECONDS if seconds is None else int(seconds)
    if metadata.get("namespace", path.namespace) not in {"", path.namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name", path.name) not in {"", path.name}:
        rule = "must match the service account name if specified"
        raise api_errors.invalid(KIND.group, KIND.kind, path.name, [invalid("metadata.name", metadata["name"], rule)])
    if found := _check_seconds(seconds):
        raise api_errors.invalid(KIND.group, KIND.kind, "", found)
    access = backend.access
    accounts = access.authenticator.accounts
    if not accounts.signs:
        raise api_errors.StatusError(
            501,
            "the gateway gives out no tokens of service accounts: MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE is not set",
        )
    audiences = [str(one) for one in spec.get("audiences") or accounts.audiences]
    bound = _bound(backend, path, account.document, spec.get("boundObjectRef"))
    warnings, most = list(sent.warnings), access.authenticator.longest_account_token
    if most and seconds > most:
        warnings.append(f"requested expiration of {seconds} seconds shortened to {most} seconds")
        seconds = most
    uid = str(account.document["metadata"]["uid"])
    now = backend.clock.now()
    wanted = RequestedToken(
        path.namespace, ObjectOfToken(path.kind.kind, path.name, uid), audiences, timedelta(seconds=seconds), bound
    )
    token, until = ("", now + wanted.lifetime) if options.dry_run else accounts.sign(wanted, now)
    if not options.dry_run:
        await backend.writer.note(path.object_id, uid, "create/token", caller(request))
    shown = {
        "kind": KIND.kind,
        "apiVersion": f"{KIND.group}/{KIND.version}",
        "metadata": {
            **metadata,
            "name": path.name,
            "namespace": path.namespace,
            "uid": uid,
            "creationTimestamp": format_time(now.replace(microsecond=0)),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": format_time(until.replace(microsecond=0))},
    }
    response = answers.in_form(201, shown, form)
    warn(response, warnings)
    return response


def _check_seconds(seconds: int) -> list[FieldError]:
    field = "spec.expirationSeconds"
    if seconds < LEAST_SECONDS:
        return [invalid(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > MOST_SECONDS:
        return [invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bound(
    backend: Backend, path: ResourcePath, account: Mapping[str, Any], reference: Mapping[str, Any] | None
) -> tuple[ObjectOfToken, ...]:
    """Return the object that the token depends on, if there is one."""
    if not reference:
        return ()
    api_version, kind = str(reference.get("apiVersion") or ""), str(reference.get("kind") or "")
    name, uid = str(reference.get("name") or ""), str(reference.get("uid") or "")
    plural = _BOUND.get((api_version, kind))
    if plural is None:
        raise bad_request(f"cannot bind token to object of type {api_version}, Kind={kind}")
    shown = backend.store.get(ObjectId(kind, "" if kind == "Node" else path.namespace, name))
    if shown is None:
        raise api_errors.not_found("", plural, name)
    document = shown.document
    own = str(document["metadata"].get("uid", ""))
    if uid not in {"", own}:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise api_errors.conflict("", kind, name, why)
    if kind == "Pod":
        named = (document.get("spec") or {}).get("serviceAccountName") or "default"
        if named != account["metadata"]["name"]:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account["metadata"]["name"]}" to pod running with different '
                "serviceaccount name."
            )
    return (ObjectOfToken(kind, name, own),)
