"""The rules of a configuration, field by field."""

from __future__ import annotations

from tests.support.tables import table

from moorage.decide.conditions.configuration_rules import validate_configuration, validate_configuration_name
from moorage_schemas.resources.configuration import MoorageConfigurationSpec


@table(
    ("spec", "message"),
    [
        (
            {"featureGates": {"Failovr": True}},
            'spec.featureGates: Unsupported value: "Failovr": supported values: "Failover"',
        ),
        (
            {"noExecuteTaintEvictionPurgeMode": "Never"},
            (
                'spec.noExecuteTaintEvictionPurgeMode: Unsupported value: "Never": supported values: '
                '"Gracefully", "Directly"'
            ),
        ),
        (
            {"nodeMonitorGracePeriod": "40"},
            'spec.nodeMonitorGracePeriod: Invalid value: "40": must be a duration such as 40s, 5m or 1m30s',
        ),
        (
            {"clusterMonitorGracePeriod": "-40s"},
            'spec.clusterMonitorGracePeriod: Invalid value: "-40s": must be a duration such as 40s, 5m or 1m30s',
        ),
        ({"taintAddHold": "40000d"}, 'spec.taintAddHold: Invalid value: "40000d": must be at most 36500d'),
        (
            {"nodeEvictionRate": -0.1},
            "spec.nodeEvictionRate: Invalid value: -0.1: must be greater than or equal to 0",
        ),
        (
            {"resourceEvictionRate": "fast"},
            'spec.resourceEvictionRate: Invalid value: "fast": must be a number, or "inf" for no limit',
        ),
        ({"unhealthyZoneThreshold": 1.5}, "spec.unhealthyZoneThreshold: Invalid value: 1.5: must be between 0 and 1"),
        (
            {"largeClusterSizeThreshold": -1},
            "spec.largeClusterSizeThreshold: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"cloudProvider": "internal"},
            'spec.cloudProvider: Unsupported value: "internal": supported values: "", "external"',
        ),
        ({"reportMaxBytes": 10}, "spec.reportMaxBytes: Invalid value: 10: must be greater than or equal to 1024"),
        (
            {"sourceGracePeriods": [{"kind": "Pod", "source": "a", "gracePeriod": "1s"}]},
            (
                'spec.sourceGracePeriods[0].kind: Unsupported value: "Pod": supported values: '
                '"Node", "Cluster", "ManagedCluster"'
            ),
        ),
        (
            {"sourceGracePeriods": [{"kind": "Node", "source": "a*b", "gracePeriod": "1s"}]},
            'spec.sourceGracePeriods[0].source: Invalid value: "a*b": * may only be its last character',
        ),
        (
            {"sourceGracePeriods": [{"kind": "Node", "source": "a,b", "gracePeriod": "1s"}]},
            (
                'spec.sourceGracePeriods[0].source: Invalid value: "a,b": must not be empty, and must not contain a '
                "comma or surrounding space"
            ),
        ),
        (
            {"sourceGracePeriods": [{"kind": "Node", "source": "a", "gracePeriod": "soon"}]},
            (
                'spec.sourceGracePeriods[0].gracePeriod: Invalid value: "soon": must be a duration such as 40s, 5m or '
                "1m30s"
            ),
        ),
    ],
)
def test_a_field_that_breaks_a_rule_is_named_with_its_value_and_the_rule(spec: dict[str, object], message: str) -> None:
    assert [str(error) for error in validate_configuration(MoorageConfigurationSpec.model_validate(spec))] == [message]


@table(
    "spec",
    [
        {},
        {"featureGates": {}},
        {"featureGates": {"Failover": True}},
        {"nodeEvictionRate": "inf", "resourceEvictionRate": 0},
        {"unhealthyZoneThreshold": 0, "largeClusterSizeThreshold": 0},
        {"nodeMonitorGracePeriod": "0s", "taintRemoveHold": "1h2m3s", "clockSkew": "250ms"},
        {"sourceGracePeriods": [{"kind": "Node", "source": "probe/a=b:*", "gracePeriod": "0s"}]},
        {"cloudProvider": "external", "noExecuteTaintEvictionPurgeMode": "Directly"},
    ],
)
def test_sound_content_is_accepted(spec: dict[str, object]) -> None:
    assert validate_configuration(MoorageConfigurationSpec.model_validate(spec)) == []


def test_a_fleet_has_one_configuration() -> None:
    assert validate_configuration_name("cluster") == []
    (error,) = validate_configuration_name("other")
    assert str(error) == ('metadata.name: Invalid value: "other": must be "cluster": a fleet has one configuration')
