"""Events as files of JSON lines in a folder, each event exactly once."""
