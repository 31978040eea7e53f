"""Random CEL expressions over managed clusters, with all functions of OCM's environment.

An expression is made for a wanted type: from a literal, a path in a cluster, a variable of a macro, or a call of a
function that returns the type. Some are made wrong on purpose: an argument of another type, an unknown name, a broken
text. So about half of them compile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from moorage.decide.kubernetes.cel.functions.all import FUNCTIONS
from moorage.decide.kubernetes.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)

Request = dict[str, Any]

TEXTS = (
    *(
        "",
        "a",
        "abc",
        "A b C",
        "日本",
        "eu-west-1",
        "x=y",
        "true",
        "10",
        "-7",
        "1.5",
        "0x1f",
        "%",
        "%s",
        "\\n",
        "a,b,,c",
    ),
    *("ß∂é", "🙂", "aaa", " padded\t", "1e3", "NaN", "null", "eu", "us", "GPU", "prod", "t", "False", "inf", "007"),
)
TIMES = (
    *("2025-12-01T00:00:00Z", "2024-02-29T23:59:59.123456789+02:00", "1969-12-31T23:59:59.5Z", "9999-12-31T23:59:59Z"),
    *("0001-01-01T00:00:00Z", "2025-06-15T12:00:00-07:30", "2025-13-01T00:00:00Z", "2025-01-01", "2025-3-1T00:00:00Z"),
    *("2025-01-01T1:00:00Z", "2025-01-01T24:00:00Z", "2025-01-01T00:00:60Z", "2025-01-01t00:00:00z"),
)
SPANS = ("1h", "90s", "1.5h", "-3m", "1h2m3s", "100ms", "5", "", "0", "1us", "2µs", "300000h", "1d", "-.5s", "+1m")
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "+05:30",
    "-03:00",
    "Asia/Kathmandu",
    "Nowhere",
    "",
    "02:00",
    "1:x",
)
VERSIONS = (
    *("1.2.3", "v1.2.3", "1.2", "1", "1.31.2+k3s1", "1.2.3-alpha.1", "1.2.3-alpha.beta", "01.2.3", "v1.30", "1.2.3-"),
    *("1.2.3-01", "2.0.0-rc.1+build.5", "1.2.x", "18446744073709551615.0.0", "v01.02.03", "1.2.3.4"),
)
AMOUNTS = (
    *(
        "1",
        "500m",
        "1Gi",
        "16Gi",
        "0",
        "-2",
        "1.5",
        "1e3",
        "2E-3",
        "1k",
        "0.1n",
        "1Ki",
        "1.5Gi",
        "7500m",
        "abc",
        "1 Gi",
    ),
    *("9223372036854775807", "9223372036854775808", "1000m", "100Ei", "+5", ".5", "5.", "0.5Mi", "1u", "16777216Ki"),
)
ADDRESSES = (
    *("10.0.0.1", "::1", "fe80::1", "2001:db8::1", "127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "10.0.0.01"),  # noqa: S104 - addresses as texts
    *("::ffff:10.0.0.1", "2001:DB8::1", "fe80::1%eth0", "1.2.3", "ff02::1", "169.254.1.1", "192.168.1.1", "::"),
)
NETWORKS = (
    *(
        "10.0.0.0/8",
        "10.1.2.3/16",
        "2001:db8::/32",
        "0.0.0.0/0",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "::/0",
        "192.168.1.0/24",
    ),
    *("10.0.0.0", "10.0.0.0/-1", "fe80::1/64"),
)
ADDRESSES_OF_PAGES = (
    *("https://example.com:8080/a/b?x=1&y=2&x=3", "http://[::1]:80/", "/path/only", "ftp://user:pw@host/x", "nope"),
    *("https://example.com/%zz", "mailto:a@b.c", "https://exa mple.com", "https://e.com/ä b?q=%20+", "http://h:1x/"),
    *("https://e.com?", "//host/path", "HTTPS://E.com/#frag", "http://a:b:c/", "", "https://e.com/a%2Fb;c=1?a;b&c=d%"),
)
PATTERNS = ("^a", "a+", "[0-9]+", "(", "^eu-.*$", "", ".", "\\\\d{2}", "(?i)GPU", "a{2,3}", "x|y", "[", "\\\\pL+", "^$")
JSON = (
    *('{"a": 1, "b": [1, 2]}', "[1, 2.5, null]", '"text"', "{", '{"zone": "z1", "n": {"m": true}}', "", "nul", "1e999"),
    *("12345678901234567890", '{"a": 1, "a": 2}', "[1,]", "NaN", ' {"x":"\\\\u00e9"} '),
)
FORMS = ("%s", "%d", "%s-%s", "%.2f", "%x", "%b", "%o", "%e", "%%", "%X", "%q", "%", "%.f", "a%sb%d", "%.3e", "%5d")
NAMES = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue", "uri", "uuid", "byte", "date"),
    *("datetime", "dns1123LabelPrefix", "nothing", ""),
)
SPECIAL = (TEXTS, TEXTS, TEXTS, TIMES, SPANS, ZONES, VERSIONS, AMOUNTS, ADDRESSES, NETWORKS, ADDRESSES_OF_PAGES, JSON)
FOR_FUNCTION: dict[str, Sequence[str]] = {
    **dict.fromkeys(("timestamp",), TIMES),
    **dict.fromkeys(("duration",), SPANS),
    **dict.fromkeys(("semver", "isSemver"), VERSIONS),
    **dict.fromkeys(("quantity", "isQuantity"), AMOUNTS),
    **dict.fromkeys(("ip", "isIP", "ip.isCanonical", "containsIP"), ADDRESSES),
    **dict.fromkeys(("cidr", "isCIDR", "containsCIDR"), NETWORKS),
    **dict.fromkeys(("url", "isURL"), ADDRESSES_OF_PAGES),
    **dict.fromkeys(("parseJSON",), JSON),
    **dict.fromkeys(("format.named",), NAMES),
}
"""The texts that a function's first argument often is."""

SECOND: dict[str, Sequence[str]] = {
    **dict.fromkeys(("matches", "find", "findAll"), PATTERNS),
    **dict.fromkeys(("containsIP",), ADDRESSES),
    **dict.fromkeys(("containsCIDR",), NETWORKS),
    **{name: ZONES for name in FUNCTIONS if name.startswith("get") and name[3:4].isupper()},
    "validate": (*TEXTS, *TIMES, *ADDRESSES_OF_PAGES, "123e4567-e89b-12d3-a456-426614174000", "YWJj", "a.b/c", "a-"),
    "scores": ("load", "cost", "none"),
}

PATHS: dict[str, Sequence[str]] = {
    "string": (
        *(
            "managedCluster.metadata.name",
            "managedCluster.metadata.labels.region",
            "managedCluster.metadata.labels['num']",
        ),
        *("managedCluster.status.version.kubernetes", "managedCluster.status.capacity.cpu"),
        *("managedCluster.metadata.creationTimestamp", "managedCluster.status.clusterClaims[0].value"),
        *("managedCluster.metadata.annotations['a']", "managedCluster.status.allocatable['memory']"),
    ),
    "bool": (
        "managedCluster.spec.hubAcceptsClient",
        "has(managedCluster.metadata.labels)",
        "has(managedCluster.status.x)",
    ),
    "int": ("managedCluster.spec.leaseDurationSeconds", "managedCluster.metadata.labels.size()"),
    "list": (
        *("managedCluster.status.clusterClaims", "managedCluster.spec.taints", "managedCluster.status.conditions"),
        *("managedCluster.scores('load')", "managedCluster.status.nothing"),
    ),
    "map": (
        *(
            "managedCluster.metadata.labels",
            "managedCluster.status.capacity",
            "managedCluster",
            "managedCluster.metadata",
        ),
        *("managedCluster.status.version", "managedCluster.status", "managedCluster.spec"),
    ),
    "optional_type": (
        *(
            "managedCluster.metadata.?labels.?region",
            "managedCluster.?status.version",
            "managedCluster[?'spec'].taints[?0]",
        ),
        *("managedCluster.status.?clusterClaims[0].name", "managedCluster.metadata.?nothing"),
    ),
}
FIELDS = ("name", "value", "key", "region", "num", "cpu", "labels", "status", "effect", "type", "a", "b")
KINDS = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DURATION, TIMESTAMP, DYN, list_of(DYN), map_of(STRING, DYN))
OPAQUE = ("kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat", "net.IP", "net.CIDR")
OPERATORS = {"_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in"}
BROKEN = (
    *("managedCluster.", "1 +", "(", "foo", "foo.bar", "nothing(1)", "'a", "a.b.c()", "[1, 2", "{'a': }", "true &&"),
    *(
        "if",
        "1 in",
        "has(1)",
        "[1].all(1, true)",
        "[1].map(x)",
        "`a`.b",
        "managedCluster.x{}",
        "0x",
        "99999999999999999999",
    ),
    *(
        "[1].existsOne(x, true)",
        "b'\\u0061'",
        "'\\q'",
        "a ? b",
        "'%d'.format(['a'])",
        "'%s'.format([])",
        "''.find('(')",
        "-'a'",
        "!1",
        "null.x",
    ),
    *("1 < 1.0", "dyn(1) < 1.0", "[1].exists(x, x < 1.5)", "[1, 'a'][0] == 1", "{}.a", "[][0]", "{'a': 1}.b", "1.x"),
    *("optional.none().value()", "[?1]", "{?'a': 1}", "[,]", "{,}", "[1,]", "--1", "!!true", "-(-1)", "1 - -1", "- 5"),
)


class Maker:
    """Makes expressions.

    Args:
        rng: the source of everything that is random.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._variables: list[tuple[str, Type]] = []

    def expression(self) -> str:
        """Return an expression that is probably a bool."""
        roll = self._rng.random()
        if roll < 0.03:
            return self._rng.choice(BROKEN)
        if roll < 0.06:
            return self.of(self._rng.choice(KINDS), 3)
        return self.of(BOOL, self._rng.choice((1, 2, 2, 3, 3, 4)))

    def of(self, wanted: Type, depth: int) -> str:  # noqa: C901, PLR0911 - a table of chances
        """Return an expression of a type."""
        rng = self._rng
        if rng.random() < 0.012:
            return self.of(rng.choice(KINDS), depth)
        if wanted.name == "dyn" and rng.random() < 0.9:
            return self._dynamic(depth)
        if depth <= 0 or rng.random() < 0.12:
            return self._leaf(wanted)
        roll = rng.random()
        if roll < 0.08:
            return f"({self.of(BOOL, depth - 1)} ? {self.of(wanted, depth - 1)} : {self.of(wanted, depth - 1)})"
        if roll < 0.12:
            return f"{self.of(optional_of(wanted), depth - 1)}.orValue({self.of(wanted, depth - 1)})"
        if roll < 0.15:
            return f"{self.of(list_of(wanted), depth - 1)}[{self.of(INT, 0)}]"
        if wanted == BOOL and roll < 0.55:
            return self._truth(depth)
        if wanted.name == "list" and roll < 0.6:
            return self._list(wanted, depth)
        if wanted.name == "map" and roll < 0.6:
            return self._map(wanted, depth)
        if wanted.name == "optional_type" and roll < 0.5:
            return self._optional(wanted, depth)
        return self._call(wanted, depth)

    def _leaf(self, wanted: Type) -> str:
        rng = self._rng
        fitting = [name for name, kind in self._variables if kind in (wanted, DYN)]
        if fitting and rng.random() < 0.6:
            return rng.choice(fitting)
        if wanted.name in PATHS and rng.random() < 0.35:
            return rng.choice(PATHS[wanted.name])
        return self._literal(wanted)

    def _literal(self, wanted: Type) -> str:
        rng = self._rng
        simple: dict[str, Callable[[], str]] = {
            "bool": lambda: rng.choice(("true", "false")),
            "int": lambda: str(rng.choice((0, 1, 2, 3, -1, 10, 60, 9223372036854775807, -9223372036854775808, "0x10"))),
            "uint": lambda: f"{rng.choice((0, 1, 2, 10, 18446744073709551615))}u",
            "double": lambda: rng.choice(
                ("0.0", "1.0", "1.5", "-2.5", "1e3", "1e300", "0.1", ".5", "100000000000000000000.0")
            ),
            "string": lambda: self._text(rng.choice(SPECIAL)),
            "bytes": lambda: rng.choice(("b''", "b'abc'", "b'\\xff'", "bytes('日本')", 'b"a\\001"')),
            "null_type": lambda: "null",
            "google.protobuf.Timestamp": lambda: f"timestamp({self._text(TIMES[:6])})",
            "google.protobuf.Duration": lambda: f"duration({self._text(SPANS[:6])})",
            "kubernetes.Quantity": lambda: f"quantity({self._text(AMOUNTS)})",
            "kubernetes.Semver": lambda: f"semver({self._text(VERSIONS)}{rng.choice((', true', ''))})",
            "kubernetes.URL": lambda: f"url({self._text(ADDRESSES_OF_PAGES)})",
            "kubernetes.NamedFormat": lambda: f"format.{rng.choice(NAMES[:11])}()",
            "net.IP": lambda: f"ip({self._text(ADDRESSES)})",
            "net.CIDR": lambda: f"cidr({self._text(NETWORKS)})",
            "type": lambda: rng.choice(
                ("int", "string", "list", "map", "type", "bool", "net.IP", "null_type", "type(1)")
            ),
        }
        if wanted.name in simple:
            return simple[wanted.name]()
        if wanted.name == "list":
            return f"[{', '.join(self._literal(wanted.parts[0]) for _ in range(rng.randrange(4)))}]"
        if wanted.name == "map":
            entries = (
                f"{self._literal(wanted.parts[0])}: {self._literal(wanted.parts[1])}" for _ in range(rng.randrange(3))
            )
            return f"{{{', '.join(entries)}}}"
        if wanted.name == "optional_type":
            return rng.choice(("optional.none()", f"optional.of({self._literal(wanted.parts[0])})"))
        return self._literal(rng.choice((BOOL, INT, STRING, DOUBLE, NULL, UINT)))

    def _text(self, texts: Sequence[str]) -> str:
        text = self._rng.choice(texts)
        return "'" + text.replace("'", "\\'") + "'"

    def _dynamic(self, depth: int) -> str:
        rng = self._rng
        roll = rng.random()
        if roll < 0.35:
            return rng.choice([path for paths in PATHS.values() for path in paths])
        if roll < 0.5 and self._variables:
            return f"{rng.choice(self._variables)[0]}.{rng.choice(FIELDS)}"
        if roll < 0.7:
            return f"dyn({self.of(rng.choice(KINDS), depth - 1)})"
        if roll < 0.8:
            return f"{self.of(STRING, depth - 1)}.parseJSON()"
        return self.of(rng.choice(KINDS[:9]), depth - 1)

    def _truth(self, depth: int) -> str:  # noqa: PLR0911 - a table of chances
        rng = self._rng
        roll = rng.random()
        if roll < 0.25:
            return f"({self.of(BOOL, depth - 1)} {rng.choice(('&&', '||'))} {self.of(BOOL, depth - 1)})"
        if roll < 0.3:
            return f"!{self.of(BOOL, 0)}"
        if roll < 0.55:
            kind = rng.choice((*KINDS, *(Type(name) for name in OPAQUE), optional_of(STRING), type_of(DYN)))
            return f"({self.of(kind, depth - 1)} {rng.choice(('==', '!='))} {self.of(kind, depth - 1)})"
        if roll < 0.65:
            kind = rng.choice((INT, UINT, DOUBLE, STRING, BYTES, BOOL, DURATION, TIMESTAMP, DYN))
            return f"({self.of(kind, depth - 1)} {rng.choice(('<', '<=', '>', '>='))} {self.of(kind, depth - 1)})"
        if roll < 0.72:
            kind = rng.choice((STRING, INT, DYN))
            whole = rng.choice((list_of(kind), map_of(kind, DYN)))
            return f"({self.of(kind, depth - 1)} in {self.of(whole, depth - 1)})"
        if roll < 0.76:
            return f"has({self.of(map_of(STRING, DYN), depth - 1)}.{rng.choice(FIELDS)})"
        over = rng.choice((list_of(rng.choice(KINDS)), map_of(STRING, DYN), list_of(DYN)))
        macro = rng.choice(("all", "exists", "exists_one"))
        return self._macro(over, depth, macro, lambda: self.of(BOOL, depth - 1))

    def _macro(self, over: Type, depth: int, macro: str, *bodies: Callable[[], str]) -> str:
        whole = self.of(over, depth - 1)
        name = self._rng.choice(("x", "y", "z", "c"))
        self._variables.append((name, over.parts[0]))
        parts = [body() for body in bodies]
        self._variables.pop()
        return f"{whole}.{macro}({name}, {', '.join(parts)})"

    def _list(self, wanted: Type, depth: int) -> str:
        rng = self._rng
        element = wanted.parts[0]
        roll = rng.random()
        if roll < 0.35:
            return f"[{', '.join(self._element(element, depth) for _ in range(rng.randrange(4)))}]"
        if roll < 0.55:
            return self._macro(wanted, depth, "filter", lambda: self.of(BOOL, depth - 1))
        over = rng.choice((list_of(rng.choice(KINDS)), map_of(STRING, DYN)))
        if roll < 0.75:
            return self._macro(over, depth, "map", lambda: self.of(element, depth - 1))
        return self._macro(over, depth, "map", lambda: self.of(BOOL, depth - 1), lambda: self.of(element, depth - 1))

    def _element(self, element: Type, depth: int) -> str:
        if self._rng.random() < 0.1:
            return f"?{self.of(optional_of(element), depth - 1)}"
        return self.of(element, depth - 1)

    def _map(self, wanted: Type, depth: int) -> str:
        entries = []
        for _ in range(self._rng.randrange(3)):
            key = self.of(wanted.parts[0], 0)
            mark = "?" if self._rng.random() < 0.1 else ""
            value = self.of(optional_of(wanted.parts[1]) if mark else wanted.parts[1], depth - 1)
            entries.append(f"{mark}{key}: {value}")
        return f"{{{', '.join(entries)}}}"

    def _optional(self, wanted: Type, depth: int) -> str:
        rng = self._rng
        inner = wanted.parts[0]
        roll = rng.random()
        if roll < 0.25:
            return f"{self.of(map_of(STRING, inner), depth - 1)}[?{self._literal(STRING)}]"
        if roll < 0.45:
            return f"{self.of(list_of(inner), depth - 1)}[?{self.of(INT, 0)}]"
        if roll < 0.6:
            return f"{self.of(map_of(STRING, inner), depth - 1)}.?{rng.choice(FIELDS)}"
        source = optional_of(rng.choice((STRING, INT, DYN)))
        if roll < 0.8:
            return self._macro(source, depth, "optMap", lambda: self.of(inner, depth - 1))
        return self._macro(source, depth, "optFlatMap", lambda: self.of(wanted, depth - 1))

    def _call(self, wanted: Type, depth: int) -> str:
        rng = self._rng
        fitting = [
            (overload, names)
            for overloads in FUNCTIONS.values()
            for overload in overloads
            if overload.function[0].isalpha() or overload.function in OPERATORS | {"-_"}
            if (names := _unified(overload.returns, wanted)) is not None
        ]
        if not fitting:
            return self._leaf(wanted)
        # Each function is as likely as any other.
        function = rng.choice(sorted({overload.function for overload, _ in fitting}))
        overload, names = rng.choice([one for one in fitting if one[0].function == function])
        arguments = []
        for place, takes in enumerate(overload.takes):
            kind = _replaced(takes, names, lambda: rng.choice((INT, STRING, BOOL, DYN)))
            texts = (FOR_FUNCTION.get(function) if place == 0 else SECOND.get(function)) if kind == STRING else None
            if function == "format" and place == 0:
                texts = FORMS
            fixed = texts is not None and rng.random() < 0.75
            arguments.append(self._text(texts or TEXTS) if fixed else self.of(kind, depth - 1))
        if function in OPERATORS:
            operator = "in" if function == "@in" else function.strip("_")
            return f"({arguments[0]} {operator} {arguments[1]})"
        if function == "-_":
            return f"-({arguments[0]})"
        if overload.member:
            return f"{arguments[0]}.{function}({', '.join(arguments[1:])})"
        return f"{function}({', '.join(arguments)})"


def _unified(declared: Type, wanted: Type) -> dict[str, Type] | None:
    """Return what the parameters of a declared type stand for. None if it is another type."""
    if declared.name[0] == "$":
        return {declared.name: wanted}
    if declared.name != wanted.name or len(declared.parts) != len(wanted.parts):
        return None
    found: dict[str, Type] = {}
    for one, other in zip(declared.parts, wanted.parts, strict=True):
        names = _unified(one, other) if other.name != "dyn" else {}
        if names is None:
            return None
        found |= names
    return found


def _replaced(declared: Type, names: dict[str, Type], other: Callable[[], Type]) -> Type:
    if declared.name[0] == "$":
        return names.setdefault(declared.name, other())
    return Type(declared.name, tuple(_replaced(part, names, other) for part in declared.parts))


# --- clusters


def clusters(rng: random.Random) -> list[Request]:
    """Return some managed clusters as their API has them."""
    return [_cluster(rng, f"c{number}") for number in range(rng.randrange(2, 5))]


def _cluster(rng: random.Random, name: str) -> Request:  # noqa: C901 - a table of chances
    metadata: Request = {"name": name}
    spec: Request = {"hubAcceptsClient": rng.random() < 0.7}
    status: Request = {"conditions": [], "version": {}}
    if rng.random() < 0.8:
        metadata["labels"] = {
            "region": rng.choice(("eu", "us", "日本")),
            "num": rng.choice(("10", "x", "-7")),
            "name": rng.choice(TEXTS[1:6]).replace("\\", ""),
        }
        if rng.random() < 0.3:
            del metadata["labels"]["region"]
    if rng.random() < 0.4:
        metadata["annotations"] = {"a": rng.choice(JSON).replace("\\\\", "\\")}
    if rng.random() < 0.5:
        metadata["creationTimestamp"] = rng.choice(("2025-12-01T00:00:00Z", "2024-02-29T12:30:00Z"))
    if rng.random() < 0.6:
        spec["leaseDurationSeconds"] = rng.choice((1, 60, 300))
    if rng.random() < 0.4:
        spec["taints"] = [{"key": "gpu", "value": "yes", "effect": "NoSelect", "timeAdded": "2025-12-31T00:00:00Z"}]
    if rng.random() < 0.6:
        status["capacity"] = {"cpu": rng.choice(("8", "500m", "1.5")), "memory": "16Gi"}
        status["allocatable"] = {"cpu": "7500m", "memory": "16777216Ki"}
    if rng.random() < 0.7:
        status["version"] = {"kubernetes": rng.choice(("v1.31.2", "1.27", "v1.30.0+k3s1"))}
    if rng.random() < 0.6:
        status["clusterClaims"] = [
            {
                "name": rng.choice(("platform", "id", "a")),
                "value": rng.choice(("AWS", *VERSIONS[:4], *JSON[:3], *AMOUNTS[:6])),
            }
            for _ in range(rng.randrange(1, 4))
        ]
    if rng.random() < 0.5:
        status["conditions"] = [
            {
                "type": "ManagedClusterConditionAvailable",
                "status": rng.choice(("True", "False", "Unknown")),
                "reason": "ManagedClusterAvailable",
                "message": "",
                "lastTransitionTime": "2025-12-01T00:00:00Z",
            }
        ]
    return {"metadata": metadata, "spec": spec, "status": status}


def request(rng: random.Random) -> Request:
    """Return a random request for the operation `cel`."""
    found = clusters(rng)
    scores = {
        one["metadata"]["name"]: {"load": {"cpu": rng.randrange(-100, 101), "memory": rng.randrange(101)}}
        for one in found
        if rng.random() < 0.7
    }
    return {"op": "cel", "expression": Maker(rng).expression(), "clusters": found, "scores": scores}
