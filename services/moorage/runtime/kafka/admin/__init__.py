"""Administration of Kafka: topics, settings, users and ACLs."""
