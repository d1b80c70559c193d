"""Where acks are kept. One behaviour, two stores: Redis in production, memory for tests and the simulator."""
