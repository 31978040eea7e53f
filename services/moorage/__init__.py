"""Moorage: where may work live in a fleet, and when must it leave."""
