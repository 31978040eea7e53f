"""The gateway's side of Kafka: the one transactional writer of the fleet, and the reader of what was written."""
