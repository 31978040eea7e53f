"""CEL expressions: their functions and their errors. The results were compared with the oracle's."""

from __future__ import annotations

import pytest
from tests.support.tables import table

from moorage.decide.kubernetes.cel import ExpressionError, compiled
from moorage.decide.scheduling.ocm.columns.cel import CelColumn, CelCostColumn, scores_of
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
    "managedCluster.scores('demo').filter(s, s.name == 'g').all(e, e.value > 10)",
    "managedCluster.status.clusterClaims.exists(c, c.name == 'x' && c.value.parseJSON().n > 1.0)",
    "quantity(managedCluster.status.allocatable.memory).isGreaterThan(quantity('1500Mi'))",
    "quantity('1.5').add(1) == quantity('2500m') && quantity('2').sub(quantity('1')).asInteger() == 1",
    "quantity('-1').sign() == -1 && quantity('1Ki').isInteger() && quantity('500m').asApproximateFloat() == 0.5",
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
        "major(quantity('1')) == 1",
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
    assert str(error.value).endswith("\n | nonsense(\n | .........^")


def test_a_cluster_is_asked_again_when_its_scores_change() -> None:
    made = fleet()
    column = CelColumn(compiled("managedCluster.scores('demo').exists(s, s.value > 50)"))
    column.fill(made, made.column(column), made.rows_of(["c2"]))
    assert made.column(column)[0] == 1
    assert made.put_score(ScoreFacts("c2", "demo", {"g": 60})).columns == {column, CelCostColumn(column.expression)}
    assert made.column(column)[0] == 0
    column.fill(made, made.column(column), made.rows_of(["c2"]))
    assert made.column(column)[0] == 2
