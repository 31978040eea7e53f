"""What is decided: pure functions and records, without I/O, asyncio, clock, randomness or logging.

Each room may import only those above it in this list: `apimachinery` (the API's own rules), `taints`, `conditions`,
`disruption` (the brake), `timers`, `admission`, `scheduling`.
"""
