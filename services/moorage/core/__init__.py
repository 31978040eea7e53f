"""What is decided: pure functions and records, without I/O, asyncio, clock, randomness or logging."""
