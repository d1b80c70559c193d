"""The classes of Spark's JVM as it has parsed and checked them before: a start that finds them needs half the CPU.

Java makes such an archive for one class path and one build of itself, and looks at both when it is given one: what is
missing, damaged or made of other jars is passed over. Invariant: it changes how long a start takes, nothing else.

The class path is named jar by jar: Spark's own `jars/*` stands in the order of a folder, which is another one on the
next machine.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark

# What is wrong with an archive is no concern of whoever reads the log: see the invariant.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def place() -> Path:
    """Of the environment, since its jars are."""
    return Path(sys.prefix, "share", "tidegate", "spark.jsa")


def class_path(further: Sequence[str]) -> list[str]:
    own = Path(pyspark.__file__).with_name("jars").glob("*.jar")
    return [*sorted(str(jar) for jar in own), *further]


def java_options(archive_to: Path | None) -> str:
    if archive_to is not None:
        return f'-XX:ArchiveClassesAtExit="{archive_to}" {_QUIET}'
    return f'-XX:SharedArchiveFile="{place()}" {_QUIET}' if place().is_file() else ""
