"""The services. They read topics and write topics, and do nothing else; each has its own folder.

All have the same shape: `service.py` says what a service consumes, keeps and emits, and `state.py` what it remembers of
a partition. A worker may use the runtime and the core, but no other worker.
"""
