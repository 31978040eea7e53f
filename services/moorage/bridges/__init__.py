"""Bridges: each makes Moorage the probe and the deployer of one real cluster."""
