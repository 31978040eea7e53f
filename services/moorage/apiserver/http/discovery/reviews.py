"""Access reviews: the permissions of the caller or another user, and the identity of the caller.

The answers follow from roles and bindings (`Authorizer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.authentication.authenticator import Authenticator
from moorage.apiserver.authentication.jwts import InvalidCredentialsError, UnknownYetError
from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.http import paths
from moorage.apiserver.http.filters.access import Access, user_of
from moorage.apiserver.http.messages import answers, decoding
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.negotiation import JSON, PROTOBUF, YAML, accepted
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import bad_request
from moorage.apiserver.rbac.rules import joined
from moorage.decide.kubernetes.attributes import Attributes, User
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.decide.kubernetes.unstructured import part
from moorage.runtime.process.clock import Clock
from moorage_schemas.times import format_time

Document = dict[str, Any]

VERSION: Final = "v1"
AUTHORIZATION: Final = "authorization.k8s.io"
AUTHENTICATION: Final = "authentication.k8s.io"
VERSIONS: Final = ((AUTHENTICATION, VERSION), (AUTHORIZATION, VERSION))
"""The groups and versions that only reviews are in."""


@dataclass(frozen=True, slots=True)
class Review:
    """One kind of review. It is created, answered, and kept nowhere."""

    group: str
    plural: str
    kind: str
    status: Callable[[Document, User, Authorizer], Document]
    """Returns the answer to a review, from its `spec`, its sender, and the authorizer."""

    namespaced: bool = False

    needs_namespace: bool = False
    """Whether its `spec` has to name a namespace."""

    check: Callable[[Document], list[FieldError]] = lambda _: []
    """Returns the errors in its `spec`."""


def answered(request: Request, group: str, parts: Sequence[str]) -> Review | None:
    """Return the review that a path names. None if it names none.

    Raises:
        StatusError: 405 if it is not being created.
    """
    *before, plural = parts or ("",)
    found = next((one for one in REVIEWS if (one.group, one.plural) == (group, plural)), None)
    if found is None or len(before) != (2 if found.namespaced else 0) or (before and before[0] != "namespaces"):
        return None
    paths.check_method(request, "POST")
    return found


async def answer(request: Request, review: Review, clock: Clock, access: Access) -> Response:
    """Answer a review. Raises StatusError: 400 if it cannot be read, 422 if it names nothing."""
    options = write_options(request.query_params, "CreateOptions")
    form = accepted(request, (JSON, YAML, PROTOBUF))
    sent = (
        await decoding.read_object(request, Expected(review.group, VERSION, review.kind), options.field_validation)
    ).document
    api_version = f"{review.group}/{VERSION}"
    said = (sent.get("apiVersion") or api_version, sent.get("kind") or review.kind)
    if said != (api_version, review.kind):
        raise bad_request(f"the path is of {api_version}, Kind={review.kind}, and the object is of another one")
    spec = sent.get("spec")
    if spec is not None and not isinstance(spec, dict):
        raise bad_request(
            f'{review.kind} in version "{VERSION}" cannot be handled as a {review.kind}: spec: must be an object'
        )
    metadata = dict(part(sent, "metadata"))
    namespace = _namespace(request) if review.namespaced else ""
    found = [*review.check(spec or {}), *_check_metadata(review, metadata, spec or {}, namespace)]
    if found:
        raise api_errors.invalid(review.group, "", "", found)
    if review.needs_namespace and not (spec or {}).get("namespace"):
        raise bad_request("no namespace on request")
    if review is TOKEN_REVIEW and not (spec or {}).get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    if review is SELF_REVIEW:
        metadata["creationTimestamp"] = format_time(clock.now().replace(microsecond=0))
    shown: Document = {"kind": review.kind, "apiVersion": api_version, "metadata": metadata}
    if review is not SELF_REVIEW:
        shown["spec"] = {} if review.needs_namespace else spec or {}  # as Kubernetes answers
        shown["metadata"] = {} if review.needs_namespace else metadata
    if review is TOKEN_REVIEW:
        shown["status"] = await _token_status(spec or {}, access.authenticator)
    else:
        shown["status"] = review.status(spec or {}, user_of(request), access.authorizer)
    return answers.in_form(201, shown, form)


def _of_caller(spec: Document, user: User, authorizer: Authorizer) -> Document:
    """Return the permission of the caller."""
    found = authorizer.authorize(user, _attributes(spec))
    return {"allowed": found.allowed, **({"reason": found.reason} if found.reason else {})}


def _of_anyone(spec: Document, _: User, authorizer: Authorizer) -> Document:
    """Return the permission of the user that a review names."""
    groups = spec.get("groups")
    asked = User(str(spec.get("user") or ""), tuple(map(str, groups)) if isinstance(groups, list) else ())
    return _of_caller(spec, asked, authorizer)


def _attributes(spec: Document) -> Attributes:
    """Return the attributes that a review names."""
    paths = spec.get("nonResourceAttributes")
    if isinstance(paths, dict) and paths:
        return Attributes(str(paths.get("verb") or ""), path=str(paths.get("path") or ""))
    asked = part(spec, "resourceAttributes")
    verb, group, version, resource, subresource, namespace, name = (
        str(asked.get(field) or "")
        for field in ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    )
    return Attributes(verb, group, version, resource, subresource, namespace, name)


def _rules(spec: Document, user: User, authorizer: Authorizer) -> Document:
    """Return all that the caller may do in a namespace."""
    found = authorizer.rules_for(user, str(spec["namespace"]))
    unknown = [role.unknown() for role in found.unknown]
    documents = [rule.document() for rule in found.rules]
    return {
        "resourceRules": [_without(rule, "nonResourceURLs") for rule in documents if rule.get("resources")],
        "nonResourceRules": [
            _without(rule, "apiGroups", "resources", "resourceNames")
            for rule in documents
            if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
        **({"evaluationError": joined(unknown)} if unknown else {}),
    }


def _without(rule: Document, *fields: str) -> Document:
    return {name: values for name, values in rule.items() if name not in fields}


def _nothing(_: Document, __: User, ___: Authorizer) -> Document:
    return {}


async def _token_status(spec: Document, authenticator: Authenticator) -> Document:
    """Whose token it is that a review shows."""
    audiences = [str(one) for one in spec.get("audiences") or ()]
    try:
        user, found = await authenticator.review(str(spec["token"]), audiences)
    except UnknownYetError as error:
        raise api_errors.unavailable(str(error)) from None
    except InvalidCredentialsError:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user), "audiences": list(found)}


def _caller(_: Document, user: User, __: Authorizer) -> Document:
    return {"userInfo": user_info(user)}


def user_info(user: User) -> Document:
    """Return a user as reviews show one."""
    shown: Document = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return shown


def _namespace(request: Request) -> str:
    """Return the namespace in the path of a review."""
    return str(request.path_params.get("path", "")).split("/")[-2]


def _check_metadata(review: Review, metadata: Document, spec: Document, namespace: str) -> list[FieldError]:
    """Check that a review of permissions has no name, and is about the namespace of its path."""
    if review.group != AUTHORIZATION or review.needs_namespace:
        return []
    found = []
    if review.namespaced:
        asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if asked != namespace:
            rule = "must match metadata.namespace"
            found.append(invalid("spec.resourceAttributes.namespace", asked, rule))
        metadata = {key: value for key, value in metadata.items() if key != "namespace"}
    if set(metadata) - {"managedFields"}:
        found.append(invalid("metadata", metadata, "must be empty"))
    return found


def _check_attributes(spec: Mapping[str, Any]) -> list[FieldError]:
    if bool(spec.get("resourceAttributes")) is bool(spec.get("nonResourceAttributes")):
        rule = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        asked = spec.get("nonResourceAttributes")
        shown = {"Path": asked.get("path", ""), "Verb": asked.get("verb", "")} if asked else None
        return [invalid("spec", shown, rule)]
    return []


def _check_user(spec: Mapping[str, Any]) -> list[FieldError]:
    found = _check_attributes(spec)
    if not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    return found


SELF_REVIEW: Final = Review(group=AUTHENTICATION, plural="selfsubjectreviews", kind="SelfSubjectReview", status=_caller)
TOKEN_REVIEW: Final = Review(group=AUTHENTICATION, plural="tokenreviews", kind="TokenReview", status=_nothing)
"""Its answer takes a check of signatures."""

REVIEWS: Final = (
    Review(
        group=AUTHORIZATION,
        plural="localsubjectaccessreviews",
        kind="LocalSubjectAccessReview",
        namespaced=True,
        status=_of_anyone,
        check=_check_user,
    ),
    Review(
        group=AUTHORIZATION,
        plural="selfsubjectaccessreviews",
        kind="SelfSubjectAccessReview",
        status=_of_caller,
        check=_check_attributes,
    ),
    Review(
        group=AUTHORIZATION,
        plural="selfsubjectrulesreviews",
        kind="SelfSubjectRulesReview",
        needs_namespace=True,
        status=_rules,
    ),
    Review(
        group=AUTHORIZATION,
        plural="subjectaccessreviews",
        kind="SubjectAccessReview",
        status=_of_anyone,
        check=_check_user,
    ),
    SELF_REVIEW,
    TOKEN_REVIEW,
)
"""The kinds of reviews that are answered."""
