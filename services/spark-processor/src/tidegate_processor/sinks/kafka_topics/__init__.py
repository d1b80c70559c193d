"""One Kafka topic a table, each change exactly once for consumers that read committed records."""
