"""Compiles one version of a Kafka message to a straight-line function that writes it."""

import struct
from collections.abc import Callable
from typing import Any

from chordmq.codecs.kafka.wire import ARRAY_TABLE_SIZE, FORMATS, Field, fields_at
from chordmq.records.varint import SMALL, UVARINTS, uvarint

Encoder = Callable[[Any], bytearray]


def put_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    """Append tagged fields: how many, then number, size and value of each."""
    out += uvarint(len(tags))
    for tag, value in tags:
        out += uvarint(tag)
        out += uvarint(len(value))
        out += value


def compile_encoder(cls: type[Any], version: int) -> Encoder:
    """Return a function that takes a message and returns its bytes in this version."""
    source = _EncoderSource(cls, version)
    code = compile(source.text(), f"<{cls.__name__} v{version} encoder>", "exec")
    exec(code, source.names)  # noqa: S102  the text is made from our own classes only
    encoder: Encoder = source.names["encode"]
    return encoder


class _EncoderSource:
    """The growing text of one encoder; fixed-size values wait in `_fixed` to share one pack."""

    def __init__(self, cls: type[Any], version: int) -> None:
        self.names: dict[str, Any] = {
            "UVARINTS": UVARINTS,
            "uvarint": uvarint,
            "pack": struct.pack,
            "put_tags": put_tags,
        }
        self._version = version
        self._is_flexible = cls.flexible_since is not None and version >= cls.flexible_since
        self._out = "out"
        self._fixed: list[tuple[str, str]] = []
        self._count = 0
        self._lines = ["def encode(message):"]
        self._emit(1, "out = bytearray()")
        self._struct(1, cls, "message")
        self._flush(1)
        self._emit(1, "return out")

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
        values = ", ".join(value for _, value in self._fixed if value)
        name = "pack_" + layout.replace("?", "t")
        self.names[name] = struct.Struct(">" + layout).pack
        value = f"{name}({values})" if values else repr(bytes(len(layout)))
        self._emit(depth, f"{self._out} += {value}")
        self._fixed = []

    def _struct(self, depth: int, cls: type[Any], owner: str) -> None:
        tagged = []
        for item in fields_at(cls, self._version):
            if not item.is_present:
                self._refuse(depth, cls, owner, item)
            elif item.tag is not None:
                tagged.append(item)
            else:
                self._value(depth, item, f"{owner}.{item.name}")
        if tagged:
            self._tags(depth, tagged, owner)
        elif self._is_flexible:
            self._fixed.append(("x", ""))  # no tagged fields: their count is a zero byte

    def _differs(self, item: Field, value: str) -> str:
        if item.default is None:
            return f"{value} is not None"
        if item.struct is not None and item.default != []:
            parts = fields_at(item.struct, self._version)
            return " or ".join(self._differs(part, f"{value}.{part.name}") for part in parts)
        return f"{value} != {item.default!r}"

    def _refuse(self, depth: int, cls: type[Any], owner: str, item: Field) -> None:
        if item.is_ignorable:
            return
        self._emit(depth, f"if {self._differs(item, f'{owner}.{item.name}')}:")
        fault = f"version {self._version} has no {cls.__name__}.{item.name}"
        self._emit(depth + 1, f"raise ValueError({fault!r})")

    def _tags(self, depth: int, tagged: list[Field], owner: str) -> None:
        self._flush(depth)
        tags, out = self._name("tags"), self._out
        self._emit(depth, f"{tags} = []")
        for item in sorted(tagged, key=lambda item: item.tag or 0):
            self._emit(depth, f"if {self._differs(item, f'{owner}.{item.name}')}:")
            self._out = self._name("tag")
            self._emit(depth + 1, f"{self._out} = bytearray()")
            self._value(depth + 1, item, f"{owner}.{item.name}")
            self._flush(depth + 1)
            self._emit(depth + 1, f"{tags}.append(({item.tag}, {self._out}))")
        self._out = out
        self._emit(depth, f"if {tags}: put_tags({out}, {tags})")
        self._emit(depth, f"else: {out} += b'\\0'")

    def _value(self, depth: int, item: Field, value: str) -> None:
        if item.kind in FORMATS:
            self._fixed.append((FORMATS[item.kind], value))
            return
        name = value
        if not value.isidentifier():
            name = self._name("value")
            self._emit(depth, f"{name} = {value}")
        if item.is_nullable:
            self._flush(depth)
            self._emit(depth, f"if {name} is None: {self._out} += {self._null(item)!r}")
            self._emit(depth, "else:")
            self._body(depth + 1, item, name)
            self._flush(depth + 1)
        else:
            self._body(depth, item, name)

    def _null(self, item: Field) -> bytes:
        if item.struct is not None and not item.kind.startswith("[]"):
            return b"\xff"
        if self._is_flexible:
            return b"\0"
        return b"\xff\xff" if item.kind == "string" else b"\xff\xff\xff\xff"

    def _body(self, depth: int, item: Field, name: str) -> None:
        if item.kind.startswith("[]"):
            self._length(depth, "i", name)
            self._elements(depth, item, name)
        elif item.struct is not None:
            if item.is_nullable:
                self._fixed.append(("b", "1"))
            self._struct(depth, item.struct, name)
        else:
            if item.kind == "string":
                self._emit(depth, f"{name} = {name}.encode()")
            self._length(depth, "h" if item.kind == "string" else "i", name)
            self._flush(depth)
            self._emit(depth, f"{self._out} += {name}")

    def _length(self, depth: int, layout: str, name: str) -> None:
        if not self._is_flexible:
            self._fixed.append((layout, f"len({name})"))
            return
        self._flush(depth)
        size = self._name("size")
        self._emit(depth, f"{size} = len({name}) + 1")
        self._emit(
            depth, f"{self._out} += UVARINTS[{size}] if {size} < {SMALL} else uvarint({size})"
        )

    def _elements(self, depth: int, item: Field, name: str) -> None:
        self._flush(depth)
        kind = item.kind.removeprefix("[]")
        layout = FORMATS.get(kind)
        if layout is not None and len(layout) == 1:
            self._numbers(depth, layout, name)
            return
        element = self._name("item")
        self._emit(depth, f"for {element} in {name}:")
        if item.struct is not None:
            self._struct(depth + 1, item.struct, element)
        else:
            self._value(depth + 1, item._replace(kind=kind, is_nullable=False), element)
        self._flush(depth + 1)

    def _numbers(self, depth: int, layout: str, name: str) -> None:
        table, size = "pack_array_" + layout.replace("?", "t"), self._name("size")
        self.names[table] = [struct.Struct(f">{n}{layout}").pack for n in range(ARRAY_TABLE_SIZE)]
        self._emit(depth, f"{size} = len({name})")
        self._emit(
            depth, f"if {size} < {ARRAY_TABLE_SIZE}: {self._out} += {table}[{size}](*{name})"
        )
        self._emit(depth, f"else: {self._out} += pack('>%d{layout}' % {size}, *{name})")
