"""What is measured: CPU and memory of process trees, bytes on the broker, WAL held, and what a consumer saw when."""
