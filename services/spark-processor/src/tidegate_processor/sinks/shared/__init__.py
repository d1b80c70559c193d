"""What several sinks are made of. A sink knows this and never another sink."""
