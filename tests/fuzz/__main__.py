"""`python -m fuzz TARGET [SECONDS]`: one target under atheris, from real captures and from what was found before.

What breaks a promise is written to `tests/fuzz/found/<target>-<digest>`, where every run of the tests tries it again.
The corpus grows in `.cache/fuzz/<target>`.
"""

import hashlib
import inspect
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import atheris
from kit import plain_casts, plain_cells

from fuzz import bounds
from fuzz.targets import TARGETS, seeds
from tidegate.contracts import frame
from tidegate.pgoutput import decode, encode, relations, transactions, wire
from tidegate_processor.encodings import arrays, values

# What the fuzzer is guided by: the readable halves. Kernels are compiled, and can't hold its marks.
GUIDES = (arrays, decode, encode, frame, plain_casts, plain_cells, relations, transactions, values, wire)

FOUND = Path(__file__).parent / "found"
CORPUS = Path(".cache/fuzz")
LONGEST = 65_536
# Instrumented code is slower by about this; what exceeds the bound even so is tried again by test_targets.py.
_SLOWED = 8


def main() -> None:
    name, limit = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    _guide()
    target = TARGETS[name]
    for seed in (*seeds(name), *(bytes([first]) for first in range(256))):
        (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
        target(seed)  # so that all is compiled, loaded and planned before the clock runs

    def judged(data: bytes) -> None:
        taken = bounds.seconds(target, data)
        assert taken < _SLOWED * bounds.MOST_SECONDS, f"{taken:.3f} s for {len(data)} bytes"

    options = [f"-max_total_time={limit}", f"-max_len={LONGEST}", f"-artifact_prefix={FOUND / name}-", "-timeout=20"]
    atheris.Setup([sys.argv[0], str(folder), *options, "-print_final_stats=1", "-verbosity=1"], judged)
    atheris.Fuzz()


def _guide() -> None:
    for module in GUIDES:
        classes = [each for each in vars(module).values() if inspect.isclass(each) and _is_of(each, module)]
        for owner in (module, *classes):
            for function in vars(owner).values():
                if isinstance(function, FunctionType) and _is_of(function, module):
                    atheris.instrument_func(function)


def _is_of(thing: type | FunctionType, module: ModuleType) -> bool:
    return thing.__module__ == module.__name__


if __name__ == "__main__":
    main()
