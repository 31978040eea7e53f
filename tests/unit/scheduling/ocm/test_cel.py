"""CEL expressions: their functions and their errors. The results were compared with the oracle's."""

from __future__ import annotations

import pytest
from tests.support.tables import table

from moorage.decide.kubernetes.cel.expressions import Evaluation, ExpressionError, compiled
from moorage.decide.scheduling.ocm.columns.cel import CelColumn, scores_of
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet

DOCUMENT = {
    "metadata": {"name": "c2", "labels": {"v": "1.2.0", "r": "eu"}},
    "spec": {"taints": [{"key": "a", "effect": "PreferNoSelect", "timeAdded": "2025-01-01T00:00:00Z"}]},
    "status": {
        "version": {"kubernetes": "v1.32.1"},
        "clusterClaims": [{"name": "x", "value": '{"n": 2}'}],
        "allocatable": {"cpu": "2", "memory": "2Gi"},
    },
}


def fleet() -> ManagedFleet:
    made = ManagedFleet()
    made.put(ManagedClusterFacts.of(DOCUMENT))
    made.put_score(ScoreFacts("c2", "demo", {"g": 20}))
    return made


HOLD = [
    "managedCluster.metadata.labels['r'] == 'eu'",
    "managedCluster.metadata.labels.r in ['eu']",
    "semver(managedCluster.metadata.labels.v).isGreaterThan(semver('1.1.9'))",
    "semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.10.0').compareTo(semver('1.9.0')) == 1",
    "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    "isSemver('1.2.3') && !isSemver('v1')",
    # Errors are absorbed where another element decides.
    "[{'a': 1}, {}].exists(x, x.a == 1) && !([{'a': 1}, {}].all(x, x.a == 2))",
    "managedCluster.status.clusterClaims.exists(c, c.nothing == 1 || c.name == 'x')",
    "string(true) == 'true' && '日本'.size() == 2 && size('日本') == 2",
    "timestamp('2025-06-01T22:30:00Z').getHours('Europe/Berlin') == 0",
    "timestamp('2025-06-01T22:30:00Z').getDate('+05:30') == 2",
    "managedCluster.metadata.?labels.?r.orValue('none') == 'eu' && !managedCluster.?nothing.hasValue()",
    "managedCluster.metadata[?'labels'].optMap(l, l.size()).value() == 2",
    "managedCluster.metadata.?name.optMap(n, ['c1', 'c2'].exists(c, c == n)).value()",
    "'%s-%d-%.1f'.format(['a', 1, 2.5]) == 'a-1-2.5' && '%x'.format([255]) == 'ff'",
    "string(cidr('10.0.0.0/8')) == '10.0.0.0/8' && string(ip('::1')) == '::1' && type(ip('::1')) == net.IP",
    "format.dns1035Label().validate('1a').hasValue() && format.uri().validate('https://x') == optional.none()",
    "[1, 2].first().value() == 1 && optional.unwrap([optional.of(1), optional.none()]) == [1]",
    "string(duration('90m')) == '5400s' && duration('1h').getMinutes() == 60",
    "string(timestamp('2025-01-01T00:00:00Z') + duration('36h')) == '2025-01-02T12:00:00Z'",
    "{'a': 1, 'b': 2}.map(k, k) == ['a', 'b'] && dyn(1) < 1.5 && 1u == dyn(1) && dyn(1.0) in [1]",
    "managedCluster.status.allocatable.memory == '2Gi' && bytes('é').size() == 2",
    "managedCluster.scores('demo').filter(s, s.name == 'g').all(e, e.value > 10)",
    "managedCluster.status.clusterClaims.exists(c, c.name == 'x' && c.value.parseJSON().n > 1.0)",
    "quantity(managedCluster.status.allocatable.memory).isGreaterThan(quantity('1500Mi'))",
    "quantity('1.5').add(1) == quantity('2500m') && quantity('2').sub(quantity('1')).asInteger() == 1",
    "sign(quantity('-1')) == -1 && quantity('1Ki').isInteger() && quantity('500m').asApproximateFloat() == 0.5",
    "isQuantity('1Gi') && !isQuantity('x')",
    "managedCluster.spec.taints.exists(t, t.key == 'a')",
    "managedCluster.metadata.name.matches('c[12]') && managedCluster.metadata.name.find('[0-9]') == '2'",
    "'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
    "!has(managedCluster.nothing) && managedCluster.spec.hubAcceptsClient == false",
    "[1, 2].indexOf(2) == 1 && 'hello'.lastIndexOf('l') == 3 && [1, 2].isSorted() && [1, 2].sum() == 3",
    "managedCluster.metadata.labels.v.split('.')[1] == '2' && 'Abc'.lowerAscii() == 'abc'",
    "ip('10.0.0.1').family() == 4 && ip('10.0.0.1').isGlobalUnicast() && isIP('::1') && ip.isCanonical('::1')",
    "ip('127.0.0.1').isLoopback() && ip('224.0.0.5').isLinkLocalMulticast() && !isIP('::ffff:1.2.3.4')",
    "cidr('10.0.0.0/8').containsIP('10.1.1.1') && !cidr('10.0.0.0/8').containsIP(ip('11.1.1.1'))",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')",
    "isURL('https://x') && url('https://a@x.y:1/p?q=1').getHost() == 'x.y:1' && url('https://x:1').getPort() == '1'",
    "url('https://[::1]:80/p').getHostname() == '::1' && url('/p?q=1&q=2').getQuery()['q'] == ['1', '2']",
    "format.dns1123Label().validate(managedCluster.metadata.name).hasValue() == false",
    "format.named('uuid').value().validate('no').hasValue() && !format.named('none').hasValue()",
]


@table("text", HOLD)
def test_what_holds(text: str) -> None:
    made = fleet()
    assert compiled(text).holds(made.at(0).document, scores_of(made))


@table(
    "text",
    [
        "managedCluster.nothing == 1",
        "managedCluster.nothing != 1",
        "managedCluster.metadata.name",  # not a boolean
        "managedCluster.scores('none').size() == 0",
        "managedCluster.status.allocatable.cpu > 1",  # a text is not a number
        "1 / 0 == 1",
        "[1][5] == 1",
        "semver('x').major() == 0",
        "quantity('500m').asInteger() == 0",
        "ip('x').family() == 4",
        "cidr('10.0.0.1').prefixLength() == 32",
        "['a'].map(x, x.parseJSON()).exists(x, true)",
        "[1, 2].exists_one(x, x / 0 == 1)",
    ],
)
def test_what_cannot_be_answered_does_not_hold(text: str) -> None:
    made = fleet()
    assert not compiled(text).holds(made.at(0).document, scores_of(made))


UNDECLARED = "undeclared reference to '{}' (in container '')"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo == 1", f"ERROR: <input>:1:1: {UNDECLARED.format('foo')}\n | foo == 1\n | ^"),
        ("bar(managedCluster)", f"ERROR: <input>:1:4: {UNDECLARED.format('bar')}\n | bar(managedCluster)\n | ...^"),
        ("'a'.nofn()", f"ERROR: <input>:1:9: {UNDECLARED.format('nofn')}\n | 'a'.nofn()\n | ........^"),
        (
            "1 == 'a'",
            "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, string)'\n | 1 == 'a'\n | ..^",
        ),
        (
            "managedCluster.metadata.name + 1 == 2 && 'a'",
            (
                "ERROR: <input>:1:42: expected type 'bool' but found 'string'\n"
                " | managedCluster.metadata.name + 1 == 2 && 'a'\n | .........................................^"
            ),
        ),
        (
            "'a'.all(x, true)",
            (
                "ERROR: <input>:1:1: expression of type 'string' cannot be range of a comprehension "
                "(must be list, map, or dynamic)\n | 'a'.all(x, true)\n | ^"
            ),
        ),
        (
            "major(quantity('1')) == 1",
            (
                "ERROR: <input>:1:6: found no matching overload for 'major' applied to '(kubernetes.Quantity)'\n"
                " | major(quantity('1')) == 1\n | .....^"
            ),
        ),
        (
            "semver('v1.0', true).minor() == 0",
            (
                "ERROR: <input>:1:7: found no matching overload for 'semver' applied to '(string, bool)'\n"
                " | semver('v1.0', true).minor() == 0\n | ......^"
            ),
        ),
        ("'foo' == foo", f"ERROR: <input>:1:10: {UNDECLARED.format('foo')}\n | 'foo' == foo\n | .........^"),
    ],
)
def test_a_wrong_expression_is_told_as_upstream_tells_it(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as error:
        compiled(text)
    assert str(error.value) == f"compilation failed: {said}"


def test_a_syntax_error_is_told_as_upstream_tells_it() -> None:
    with pytest.raises(ExpressionError) as error:
        compiled("nonsense(")
    assert str(error.value).startswith(
        "compilation failed: ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>'"
    )
    assert error.value.as_upstream
    assert str(error.value).endswith("\n | nonsense(\n | .........^")


def test_a_cluster_is_asked_again_when_its_scores_change() -> None:
    made = fleet()
    column = CelColumn(compiled("managedCluster.scores('demo').exists(s, s.value > 50)"))
    rows = made.rows_of(["c2"])
    column.fill_within(made, made.column(column), rows, None)
    assert made.column(column)[0] > 1
    assert not column.true_in(made.column(column))[0]
    assert made.put_score(ScoreFacts("c2", "demo", {"g": 60})).columns == {column}
    assert made.column(column)[0] == 0
    column.fill_within(made, made.column(column), rows, None)
    assert column.true_in(made.column(column))[0]


def test_an_error_has_a_text_and_a_cost() -> None:
    found = compiled("managedCluster.metadata.nothing == 'a'").evaluate(DOCUMENT, Evaluation())
    assert (found.value, found.error, found.unsupported) == (False, "no such key: nothing", False)
    assert found.cost > 0
    assert (
        compiled("managedCluster.metadata.name").evaluate(DOCUMENT, Evaluation()).error.startswith("the result is no")
    )


@table(
    "text",
    [
        "google.protobuf.Duration{seconds: 1} == duration('1s')",
        "google.protobuf.NullValue.NULL_VALUE == 0",
        "(" * 96 + "true" + ")" * 96,
    ],
)
def test_what_only_moorage_refuses_is_told_apart(text: str) -> None:
    with pytest.raises(ExpressionError) as error:
        compiled(text)
    assert not error.value.as_upstream
