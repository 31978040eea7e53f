"""The API for people and programs: the Kubernetes API of the fleet, and the intake of condition reports.

Consumes: HTTP; the topic objects. The gateway that leads also reads resources, taints, conditions, placements,
    bindings, evictions, timers, workload-conditions, zones, budgets. All of them whole, into memory.
Keeps: nothing; everything that it shows is in the topics.
Emits: condition-reports. The gateway that leads also resources, configuration, audit, objects (their only writer).
"""
