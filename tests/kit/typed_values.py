"""Values out of typed columns, in the terms of `plain_casts`, and whether two of them are the same."""

import math
from typing import Any

import pyarrow as pa


def plain(values: pa.Array) -> list[Any]:
    """As `to_pylist`, but with times as the numbers that they are."""
    kind = values.type
    if pa.types.is_interval(kind):
        return [None if value is None else tuple(value) for value in values.to_pylist()]
    if pa.types.is_struct(kind):
        fields = [plain(values.field(at)) for at in range(kind.num_fields)]
        names = [field.name for field in kind]
        rows = zip(*fields, strict=True)
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, values.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_large_list(kind):
        items, offsets = plain(values.values), values.offsets.to_pylist()
        valid = values.is_valid().to_pylist()
        return [items[offsets[at] : offsets[at + 1]] if valid[at] else None for at in range(len(values))]
    if pa.types.is_temporal(kind):
        return list(values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist())
    return list(values.to_pylist())


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other
