"""Recorded topics, decided on again: the engine is given what it was given, and what comes out is compared.

Each process notes, beside what it writes, what does not follow from the records (`runtime.engine.journal`). Nothing
here decides: `playing` drives the runtime's own engine through those steps.
"""
