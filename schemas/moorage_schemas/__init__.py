"""The contract of Moorage: topics, events and resources, for probes and deployers."""
