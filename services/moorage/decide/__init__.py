"""The decisions: pure functions and records, without I/O, asyncio, clock, randomness or logging.

Each room may import only the rooms before it in this list: `kubernetes` (the few rules of the Kubernetes API that
decisions need), `taints`, `conditions`, `disruption` (rates and budgets), `timers`, `scheduling`.
"""
