"""Checks of the reports that probes write to Kafka."""
