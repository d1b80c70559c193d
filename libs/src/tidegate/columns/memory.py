"""Numbers and runs of bytes at any address: what LLVM has and numba does not offer.

Places in text are addresses, whole numbers: an array would travel as seven words through every call, and the calls
would cost more than the work. Nothing here checks a bound: who calls has made sure that the bytes are there.
Numbers `be` are big-endian, as the wire has them; `word` is eight bytes of text, the first in the lowest place.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tidegate.columns.compiled import inlined, signed

_LITTLE = np.little_endian
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


def _pointer(builder: Any, address: Any, to: Any = _BYTE) -> Any:
    return builder.inttoptr(address, to.as_pointer())


def _loader(bits: int, result: Any, *, big_endian: bool) -> Callable[[int], Any]:
    def load(typing_context: Any, at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = builder.load(_pointer(builder, arguments[0], ir.IntType(bits)), align=1)
            if big_endian is _LITTLE and bits > 8:
                number = builder.bswap(number)
            if bits == 64:
                return number
            widened = builder.sext if result.signed and bits > 8 else builder.zext
            return widened(number, _WORD)

        return result(types.int64), codegen

    loader: Callable[[int], Any] = intrinsic(load)
    return loader


be_u64 = _loader(64, types.uint64, big_endian=True)
be_i64 = _loader(64, types.int64, big_endian=True)
be_u32 = _loader(32, types.uint64, big_endian=True)
be_i32 = _loader(32, types.int64, big_endian=True)
be_i16 = _loader(16, types.int64, big_endian=True)
word = _loader(64, types.uint64, big_endian=False)
byte = _loader(8, types.int64, big_endian=False)


def _storer(bits: int, number_type: Any) -> Callable[[int, Any], None]:
    def store(typing_context: Any, to: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, value = arguments
            if bits == 8:
                value = builder.trunc(value, _BYTE)
            elif not _LITTLE:
                value = builder.bswap(value)
            builder.store(value, _pointer(builder, address, ir.IntType(bits)), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, number_type), codegen

    storer: Callable[[int, Any], None] = intrinsic(store)
    return storer


put_word = _storer(64, types.uint64)
put = _storer(8, types.int64)


def _native_storer(bits: int) -> Callable[[int, int], None]:
    """As the machine has its numbers, which is as Arrow has them."""

    def store(typing_context: Any, to: Any, number: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, value = arguments
            kept = builder.trunc(value, ir.IntType(bits))
            builder.store(kept, _pointer(builder, address, ir.IntType(bits)), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    storer: Callable[[int, int], None] = intrinsic(store)
    return storer


put_i16 = _native_storer(16)
put_i32 = _native_storer(32)


@intrinsic  # type: ignore[untyped-decorator]
def high_product(typing_context: Any, one: Any, other: Any) -> Any:
    """The upper half of the 128 bits of a product."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, wide(64)), _WORD)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def leading_zeros(typing_context: Any, number: Any) -> Any:
    """Of a number that is not 0."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def copy(typing_context: Any, to: Any, at: Any, length: Any) -> Any:
    """The two never overlap."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source, count = arguments
        cgutils.raw_memcpy(builder, _pointer(builder, target), _pointer(builder, source), count, 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def swapped(typing_context: Any, number: Any) -> Any:
    """The eight bytes in the other order."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing_context: Any, number: Any) -> Any:
    """The place of the lowest bit that is set; the number is not 0."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


@inlined
def address(array: np.ndarray) -> int:
    return int(signed(array.ctypes.data))


def address_of(array: np.ndarray) -> int:
    """The same from Python, where it costs more than a call of a kernel."""
    return int(array.__array_interface__["data"][0])


def _load_field(typing_context: Any, row: Any, which: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(builder, _place(builder, *arguments), _WORD), align=1)

    return types.int64(types.int64, types.int64), codegen


def _store_field(typing_context: Any, row: Any, which: Any, number: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, which, number = arguments
        builder.store(number, _pointer(builder, _place(builder, row, which), _WORD), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _find_row(typing_context: Any, table: Any, at: Any, fields: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, at, fields = arguments
        return _place(builder, table, builder.mul(at, fields))

    return types.int64(types.int64, types.int64, types.int64), codegen


def _place(builder: Any, row: Any, which: Any) -> Any:
    return builder.add(row, builder.mul(which, _WORD(8)))


field: Callable[[int, int], int] = intrinsic(_load_field)
"""Of a table's row. A row of numpy's would count references, which costs as much as the work done with it."""
set_field: Callable[[int, int, int], None] = intrinsic(_store_field)
row_of: Callable[[int, int, int], int] = intrinsic(_find_row)
