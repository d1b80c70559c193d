"""What the services agree on, and the only place where they meet: each type has a reference page and golden files."""
