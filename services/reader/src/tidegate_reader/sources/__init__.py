"""Where changes come from: one folder a source."""
