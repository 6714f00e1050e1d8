# SPDX-License-Identifier: BSD-3-Clause
"""Memory that an operation reads or writes: its address, its elements, and what keeps it alive."""
import ctypes
import re
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_ssize_t, c_void_p, py_object
from typing import Any, Optional

from .library import TYPES

# Flags of PyObject_GetBuffer(), from CPython's documented interface.
_WRITABLE = 0x0001
_FORMAT = 0x0004
_C_CONTIGUOUS = 0x0038

# Characters of the struct module, by the kind of number; the item size tells the width.
_KINDS = {"e": "float", "f": "float", "d": "float", **dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint")}


class _Buffer(Structure):
    """CPython's Py_buffer."""

    _fields_ = [
        ("buf", c_void_p), ("obj", py_object), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
        ("ndim", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = [py_object, POINTER(_Buffer), c_int], c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [POINTER(_Buffer)], None


class Memory:
    """A contiguous piece of memory. release() lets go of it; until then nobody can resize or free it."""

    def __init__(self, address: int, length: int, type_name: Optional[str], owner: Any, buffer: Optional[_Buffer] = None,
                 unit: int = 1, text: str = "B") -> None:
        self.address = address
        self.length = length
        #: a name in TYPES, or None: elements that cannot be reduced
        self.type = type_name
        self.owner = owner
        #: bytes of an element
        self.unit = unit
        #: what an element is: the same text, the same element
        self.text = text
        self._buffer = buffer

    @property
    def raw(self) -> bool:
        """Whether it is bytes, which may be anything."""
        return self.text == "uint8"

    @property
    def description(self) -> str:
        """The type of the elements, for people."""
        kind = getattr(self.owner, "dtype", None)
        return str(kind) if kind is not None else self.text if self.type else f"format {self.text!r}"

    def release(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            _release(byref(buffer))
        self.owner = None


def _element(text: str, size: int) -> str:
    """What an element is: a name in TYPES if it is one of those in this machine's byte order, else its format with that order."""
    order = text[:1] if text[:1] in "@=<>!" else "@"
    kind = text[len(order):] if text.startswith(order) else text
    swapped = order in (">!" if sys.byteorder == "little" else "<") and size > 1
    name = f"{_KINDS.get(kind)}{8 * size}"
    if name in TYPES and not swapped:
        return name
    return f"{'>' if sys.byteorder == 'little' else '<'}{kind}" if swapped else kind


def of_buffer(thing: Any, writable: bool, type_name: Optional[str] = None) -> Memory:
    """Memory of an object with the buffer protocol. A BufferError, ValueError or TypeError says why it has none that fits."""
    if type_name is not None and type_name not in TYPES:
        raise ValueError(f"type {type_name!r}: one of {', '.join(TYPES)} is expected")
    buffer = _Buffer()
    _get(thing, byref(buffer), _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
    text, unit = (buffer.format or b"B").decode(), max(1, buffer.itemsize)
    element = _element(text, unit)
    found = Memory(buffer.buf or 0, buffer.len, element if element in TYPES else None, thing, buffer, unit, element)
    try:
        # The names of fields are not part of the type.
        if "O" in re.sub(":[^:]*:", "", text):
            raise TypeError(f"elements of type {found.description} are references to objects, which mean nothing in another process")
        if type_name is not None:
            _rename(found, type_name)
    except TypeError:
        found.release()
        raise
    return found


def _rename(found: Memory, type_name: str) -> None:
    """The caller says what the elements are."""
    unit = TYPES[type_name][1]
    if not found.raw and (found.unit != unit or found.text.startswith((">", "<"))):
        raise TypeError(f"dtype={type_name!r} for elements of type {found.description}: they have {found.unit} bytes each"
                        f"{'' if found.unit != unit else ' in the other byte order'}, and {type_name} has {unit}")
    found.type, found.unit, found.text = type_name, unit, type_name


def elements(name: str, source: Memory, target: Memory) -> "tuple[str, int]":
    """The type of an operation's elements and its bytes; a TypeError if it reduces them, and they are no numbers of one type."""
    if source.type is None or source.type != target.type:
        raise TypeError(f"{name}: elements of type {source.description} and {target.description}; both must be the same one of "
                        f"{', '.join(TYPES)}, in this machine's byte order")
    return source.type, TYPES[source.type][1]


def moved(name: str, source: Memory, target: Memory) -> "tuple[str, int]":
    """The same of an operation that moves elements as they are: any, but of one type, or bytes on one side."""
    if source.text != target.text and not source.raw and not target.raw:
        raise TypeError(f"{name}: elements of type {source.description} to send and {target.description} to receive")
    return "uint8", max(source.unit, target.unit)
