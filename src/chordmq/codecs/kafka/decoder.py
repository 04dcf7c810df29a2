"""Compiles one version of a Kafka message to a straight-line function that reads it."""

import struct
from collections.abc import Callable
from typing import Any

from chordmq.codecs.cursor import Buffer, read_uvarint
from chordmq.codecs.kafka.wire import ARRAY_TABLE_SIZE, FORMATS, Field, fields_at, size_min
from chordmq.errors import DecodeError

Decoder = Callable[[Buffer, int], Any]


def cut_off(name: str) -> DecodeError:
    """Return the error for a length that is negative, null where it must not, or too long."""
    return DecodeError(f"{name} has a length that does not fit the message")


def skip_tag(data: Buffer, position: int) -> tuple[int, int, int]:
    """Return the number of a tagged field, where its value starts and where it ends."""
    tag, position = read_uvarint(data, position)
    size, position = read_uvarint(data, position)
    if position + size > len(data):
        raise cut_off(f"tagged field {tag}")
    return tag, position, position + size


def skip_tags(data: Buffer, position: int) -> int:
    """Return the position after tagged fields of which none is known."""
    count, position = read_uvarint(data, position)
    for _ in range(count):
        _, _, position = skip_tag(data, position)
    return position


def compile_decoder(cls: type[Any], version: int) -> Decoder:
    """Return a function that reads a message in this version from a position on."""
    source = _DecoderSource(cls, version)
    code = compile(source.text(), f"<{cls.__name__} v{version} decoder>", "exec")
    exec(code, source.names)  # noqa: S102  the text is made from our own classes only
    decoder: Decoder = source.names["decode"]
    return decoder


class _DecoderSource:
    """The growing text of one decoder; fixed-size fields wait in `_fixed` to share one unpack."""

    def __init__(self, cls: type[Any], version: int) -> None:
        self.names: dict[str, Any] = {
            "cut_off": cut_off,
            "read_uvarint": read_uvarint,
            "skip_tag": skip_tag,
            "skip_tags": skip_tags,
            "unpack_from": struct.unpack_from,
        }
        self._version = version
        self._is_flexible = cls.flexible_since is not None and version >= cls.flexible_since
        self._fixed: list[tuple[str, str]] = []
        self._count = 0
        self._lines = ["def decode(data, at):"]
        self._emit(1, "end = len(data)")
        self._struct(1, cls, "message")
        # Bytes behind the message are let be, as Kafka does: librdkafka sends three too many when
        # it asks for the metadata of all topics.
        self._emit(1, "return message")

    def text(self) -> str:
        return "\n".join(self._lines)

    def _emit(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _flush(self, depth: int) -> None:
        if not self._fixed:
            return
        layout = "".join(part for part, _ in self._fixed)
        targets = "".join(f"{target}, " for _, target in self._fixed)
        name = "unpack_" + layout.replace("?", "t")
        unpacker = struct.Struct(">" + layout)
        self.names[name] = unpacker.unpack_from
        self._emit(depth, f"{targets}= {name}(data, at)")
        self._emit(depth, f"at += {unpacker.size}")
        self._fixed = []

    def _struct(self, depth: int, cls: type[Any], target: str) -> None:
        self.names[cls.__name__] = cls
        self._emit(depth, f"{target} = {cls.__name__}()")
        tagged = []
        for item in fields_at(cls, self._version):
            if item.is_present and item.tag is not None:
                tagged.append(item)
            elif item.is_present:
                self._value(depth, item, f"{target}.{item.name}", f"{cls.__name__}.{item.name}")
        self._flush(depth)
        if self._is_flexible:
            self._tags(depth, tagged, cls, target)

    def _tags(self, depth: int, tagged: list[Field], cls: type[Any], target: str) -> None:
        self._emit(depth, "if not data[at]: at += 1")
        if not tagged:
            self._emit(depth, "else: at = skip_tags(data, at)")
            return
        count, tag, stop = self._name("count"), self._name("tag"), self._name("stop")
        self._emit(depth, "else:")
        self._emit(depth + 1, f"{count}, at = read_uvarint(data, at)")
        self._emit(depth + 1, f"for _ in range({count}):")
        self._emit(depth + 2, f"{tag}, at, {stop} = skip_tag(data, at)")
        for item in tagged:
            self._emit(depth + 2, f"if {tag} == {item.tag}:")
            self._value(depth + 3, item, f"{target}.{item.name}", f"{cls.__name__}.{item.name}")
            self._flush(depth + 3)
            self._emit(depth + 3, f"if at != {stop}: raise cut_off({item.name!r})")
        self._emit(depth + 2, f"at = {stop}")

    def _value(self, depth: int, item: Field, target: str, label: str) -> None:
        if item.kind in FORMATS:
            self._fixed.append((FORMATS[item.kind], target))
        elif item.struct is not None and not item.kind.startswith("[]"):
            self._nested(depth, item, target)
        else:
            self._sized(depth, item, target, label)

    def _nested(self, depth: int, item: Field, target: str) -> None:
        assert item.struct is not None
        self._flush(depth)
        name = self._name("struct")
        if item.is_nullable:
            mark = self._name("mark")
            self._fixed.append(("b", mark))
            self._flush(depth)
            # A tagged field marks null with 0, one with a place of its own with -1 (KIP-893).
            null = "<= 0" if item.tag is not None else "< 0"
            self._emit(depth, f"if {mark} {null}: {target} = None")
            self._emit(depth, "else:")
            depth += 1
        self._struct(depth, item.struct, name)
        self._emit(depth, f"{target} = {name}")

    def _sized(self, depth: int, item: Field, target: str, label: str) -> None:
        """Read a length and then what it counts; `size` is -1 for null in every encoding."""
        size = self._name("size")
        if self._is_flexible:
            self._flush(depth)
            self._emit(depth, f"{size} = data[at] - 1")
            self._emit(depth, f"if {size} < 127: at += 1")
            self._emit(depth, "else:")
            self._emit(depth + 1, f"{size}, at = read_uvarint(data, at)")
            self._emit(depth + 1, f"{size} -= 1")
        else:
            self._fixed.append(("h" if item.kind == "string" else "i", size))
            self._flush(depth)
        if item.is_nullable:
            self._emit(depth, f"if {size} == -1: {target} = None")
            self._emit(depth, "else:")
            depth += 1
        if item.kind.startswith("[]"):
            self._elements(depth, item, target, size, label)
            return
        stop = self._name("stop")
        self._emit(depth, f"{stop} = at + {size}")
        self._emit(depth, f"if {size} < 0 or {stop} > end: raise cut_off({label!r})")
        self._emit(depth, f"{target} = {_slice(item.kind, stop)}")
        self._emit(depth, f"at = {stop}")

    def _elements(self, depth: int, item: Field, target: str, size: str, label: str) -> None:
        kind = item.kind.removeprefix("[]")
        least = size_min(kind, item.struct, self._version, is_flexible=self._is_flexible)
        self._emit(depth, f"if {size} < 0 or {size} * {least} > end - at: raise cut_off({label!r})")
        layout = FORMATS.get(kind)
        if layout is not None and len(layout) == 1:
            self._numbers(depth, layout, target, size)
            self._emit(depth, f"at += {size} * {least}")
            return
        items, element = self._name("items"), self._name("item")
        self._emit(depth, f"{items} = {target} = []")
        self._emit(depth, f"for _ in range({size}):")
        if item.struct is not None:
            self._struct(depth + 1, item.struct, element)
        else:
            self._value(depth + 1, item._replace(kind=kind, is_nullable=False), element, label)
            self._flush(depth + 1)
        self._emit(depth + 1, f"{items}.append({element})")

    def _numbers(self, depth: int, layout: str, target: str, size: str) -> None:
        table = "unpack_array_" + layout.replace("?", "t")
        self.names[table] = [
            struct.Struct(f">{n}{layout}").unpack_from for n in range(ARRAY_TABLE_SIZE)
        ]
        self._emit(
            depth, f"if {size} < {ARRAY_TABLE_SIZE}: {target} = [*{table}[{size}](data, at)]"
        )
        self._emit(depth, f"else: {target} = [*unpack_from('>%d{layout}' % {size}, data, at)]")


def _slice(kind: str, stop: str) -> str:
    if kind == "string":
        return f"str(data[at:{stop}], 'utf-8')"
    return f"data[at:{stop}]" if kind == "records" else f"bytes(data[at:{stop}])"
