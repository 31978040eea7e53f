"""URLs, parsed as Go does."""

from __future__ import annotations

import ipaddress
import re
import string
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from typing_extensions import override

from moorage.decide.kubernetes.cel.declarations import Frame, Overload, charge, function, method
from moorage.decide.kubernetes.cel.types import BOOL, STRING, Type, list_of, map_of
from moorage.decide.kubernetes.cel.values import CelError, Opaque

URL: Final = Type("kubernetes.URL")

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ASCII_ESCAPE: Final = re.compile(r"%(?!25)[0-7]", re.IGNORECASE)
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_OF_HOST: Final = frozenset(string.ascii_letters + string.digits + "-_.~!$&'()*+,;=:[]<>\"%")
_OF_USER: Final = frozenset(string.ascii_letters + string.digits + "-._:~!$&'()*+,;=%@")
_PLAIN_PATH: Final = "-_.~$&+,/:;=@"
_VALID_PATH: Final = frozenset(string.ascii_letters + string.digits + _PLAIN_PATH + "!'()*[]%")


@dataclass(frozen=True, slots=True)
class Url(Opaque):
    """A URL."""

    scheme: str
    opaque: str
    user: str
    host: str
    path: str
    query: str
    ends_with_mark: bool
    fragment: str

    @property
    def kind(self) -> str:  # type: ignore[override]  # every URL has this kind
        """The name of the type."""
        return URL.name

    @override
    def same(self, other: Opaque) -> bool:
        return self == other


class _InvalidError(ValueError):
    """A text is no URL."""


def _unescaped(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise _InvalidError("invalid URL escape")
    return unquote_to_bytes(text).decode(errors="replace")


def _parsed(text: str, *, request: bool) -> Url:
    if _CONTROL.search(text):
        raise _InvalidError("invalid control character in URL")
    if not text and request:
        raise _InvalidError("empty url")
    rest, fragment = text, ""
    if not request:
        rest, _, fragment = text.partition("#")
        fragment = _unescaped(fragment)
    if rest == "*":
        return Url("", "", "", "", "*", "", ends_with_mark=False, fragment=fragment)
    if rest.startswith(":"):
        raise _InvalidError("missing protocol scheme")
    found = _SCHEME.match(rest)
    scheme = found[1].lower() if found else ""
    rest = rest[found.end() :] if found else rest
    mark = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, "", "", "", query, ends_with_mark=mark, fragment=fragment)
        if request:
            raise _InvalidError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _InvalidError("first path segment in URL cannot contain colon")
    user, host, rest = _split(scheme, rest, request=request)
    return Url(scheme, "", user, host, _path(rest), query, ends_with_mark=mark, fragment=fragment)


def _split(scheme: str, rest: str, *, request: bool) -> tuple[str, str, str]:
    """Return the user, the host and the path of what follows the scheme."""
    if not rest.startswith("//") or not (scheme or not (request or rest.startswith("///"))):
        return "", "", rest
    authority, slash, path = rest[2:].partition("/")
    return *_authority(scheme, authority), slash + path


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    user, at, host = authority.rpartition("@")
    if at:
        if not set(user) <= _OF_USER:
            raise _InvalidError("invalid userinfo")
        _unescaped(user)
    return user, _host(scheme, host)


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _InvalidError("invalid IP-literal")
    if bracket == 0:
        end = host.rfind("]")
        if end < 0 or not _PORT.fullmatch(host[end + 1 :]):
            raise _InvalidError("invalid port after host")
        name, percent, zone = host[1:end].partition("%25")
        shown = _host_text(name) + (_unescaped(percent + zone) if percent else "")
        try:
            if ipaddress.ip_address(shown).version == 4:  # noqa: PLR2004 - IP version 4
                raise _InvalidError("invalid IP-literal")
        except ValueError as error:
            raise _InvalidError(f"invalid host: {error}") from None
        return f"[{shown}]{host[end + 1 :]}"
    colon = host.find(":")
    if colon >= 0:
        if scheme not in {"http", "https"}:
            colon = host.rfind(":")
        if not _PORT.fullmatch(host[colon:]):
            raise _InvalidError("invalid port after host")
    return _host_text(host)


def _host_text(host: str) -> str:
    if any(one < "\x80" and one not in _OF_HOST for one in host):
        raise _InvalidError("invalid character in host name")
    if _ASCII_ESCAPE.search(host):
        raise _InvalidError("invalid URL escape")
    return _unescaped(host)


def _path(path: str) -> str:
    """Return a path in escaped form."""
    plain = _unescaped(path)
    if path == "*" or set(path) <= _VALID_PATH:
        return path
    return quote(plain, safe=_PLAIN_PATH)


def _url(frame: Frame, text: str) -> Url:
    charge(frame, len(text))
    try:
        _parsed(text, request=True)
        return _parsed(text, request=False)
    except _InvalidError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def _is_url(frame: Frame, text: str) -> bool:
    charge(frame, len(text))
    return is_request_uri(text)


def is_request_uri(text: str) -> bool:
    """Return whether a text is an absolute URL, or a path from the root."""
    try:
        _parsed(text, request=True)
    except _InvalidError:
        return False
    return True


def _host_and_port(url: Url) -> tuple[str, str]:
    host, port = url.host, ""
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


def _query(frame: Frame, url: Url) -> dict[str, list[str]]:
    charge(frame, len(url.query))
    found: dict[str, list[str]] = {}
    for part in url.query.split("&"):
        if ";" in part or not part:
            continue
        key, _, value = part.partition("=")
        try:
            key, value = (_unescaped(one.replace("+", " ")) for one in (key, value))
        except _InvalidError:
            continue
        found.setdefault(key, []).append(value)
    return found


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("url", (STRING,), URL, _url, metered=True),
    function("isURL", (STRING,), BOOL, _is_url, metered=True),
    method("getScheme", (URL,), STRING, lambda url: url.scheme),
    method("getHost", (URL,), STRING, lambda url: url.host),
    method("getHostname", (URL,), STRING, lambda url: _host_and_port(url)[0]),
    method("getPort", (URL,), STRING, lambda url: _host_and_port(url)[1]),
    method("getEscapedPath", (URL,), STRING, lambda url: url.path),
    method("getQuery", (URL,), map_of(STRING, list_of(STRING)), _query, metered=True),
)
