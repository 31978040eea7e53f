"""The gateway's access to Kafka: the fleet's single transactional writer, and the reader of its topics."""
