"""The services. They only read and write topics. Each has its own folder.

All have the same structure: `service.py` states what a service consumes, keeps and emits, and `state.py` defines what
it keeps of a partition. A worker may use the runtime and the core, but no other worker.
"""
