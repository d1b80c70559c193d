"""Frames at the speed of the machine, by compiled kernels: to JSON events (`json_encode`), to Arrow text (`batches`).

`tidegate.pgoutput` and the processor's `encodings` are the readable reference of the same specification: what they say
of any bytes, these say. Needs the extra `tidegate[columns]`. Call `warm()` before the first frame that must not wait.
"""

from tidegate.columns.warm import warm

__all__ = ["warm"]
