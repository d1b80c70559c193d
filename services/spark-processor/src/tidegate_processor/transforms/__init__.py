"""What is done to changes between decoding and encoding: one file a verb, each a plan of what becomes of columns."""
