#!/bin/bash
# What compose.yaml uses of the official image's entry point: KAFKA_X_Y becomes x.y, storage is formatted once.
set -e
file=/opt/kafka/config/server.properties
env | sed -n 's/^KAFKA_//p' | grep -v '^HEAP_OPTS' | while IFS='=' read -r name value; do
  printf '%s=%s\n' "$(echo "$name" | tr 'A-Z_' 'a-z.')" "$value"
done > $file
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format --ignore-formatted -t "$CLUSTER_ID" -c $file
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} -cp '/opt/kafka/libs/*' kafka.Kafka $file
