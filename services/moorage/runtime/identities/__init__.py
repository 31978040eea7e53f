"""Identities of a process: its certificates, its users of Kafka, and keys that a fleet shares."""
