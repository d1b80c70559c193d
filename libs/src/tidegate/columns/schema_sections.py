"""The schema sections of frames, rewritten: each relation becomes another one, and equal sections are made once."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tidegate.columns.plans import PLANS_KEPT
from tidegate.contracts.frame import SchemaEntry, SchemaRole
from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.messages import Relation, Type

Becomes: TypeAlias = Callable[[Relation, Mapping[int, Type], bool], Relation]
"""False: of a shape that was before, of which no row will come; nothing is refused."""


class SchemaSections:
    def __init__(self, becomes: Becomes) -> None:
        self._becomes = becomes
        self._made: dict[tuple[bool, tuple[SchemaEntry, ...]], tuple[SchemaEntry, ...]] = {}

    def of(self, entries: tuple[SchemaEntry, ...], *, is_strict: bool) -> tuple[SchemaEntry, ...]:
        found = self._made.get((is_strict, entries))
        if found is None:
            if len(self._made) >= PLANS_KEPT:
                self._made.clear()
            made = tuple(self._entry(entry, entries, is_strict=is_strict) for entry in entries)
            found = self._made[is_strict, entries] = made
        return found

    def _entry(self, entry: SchemaEntry, entries: Sequence[SchemaEntry], *, is_strict: bool) -> SchemaEntry:
        message = decode_message(entry.message)
        if not isinstance(message, Relation):
            return entry
        described = [decode_message(each.message) for each in entries if each.role is entry.role]
        types = {each.type_oid: each for each in described if isinstance(each, Type)}
        made = self._becomes(message, types, is_strict and entry.role is SchemaRole.CURRENT)
        return SchemaEntry(entry.role, encode_message(made))
