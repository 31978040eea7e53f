"""The decisions: pure functions and records, without I/O, asyncio, clock, randomness or logging.

Each room may import only the rooms before it in this list: `apimachinery` (the API's own rules), `taints`,
`conditions`, `disruption` (rates and budgets), `timers`, `admission`, `scheduling`.
"""
