"""Who does it: the services that read topics and write topics, one folder each, and nothing else.

All have one shape: `service.py` says what one consumes, keeps and emits, `state.py` what it remembers of a partition.
A worker may use the runtime and the core, and no other worker.
"""
