"""One file a pipeline: read, merged with environment and command line, checked, and refused with every mistake at once.

`load.py` gives it as models, `apart.py` as plain values from a process that checked it and is gone.

Invariant: what is loaded is complete (derived names filled in) and holds references to secrets, never secrets. Nothing
here opens a connection or imports a client.
"""
