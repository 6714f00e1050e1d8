# SPDX-License-Identifier: BSD-3-Clause
"""Memory that an operation reads or writes: its address, its elements, and what keeps it alive."""
import ctypes
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

    def __init__(self, address: int, length: int, type_name: Optional[str], owner: Any, buffer: Optional[_Buffer] = None) -> None:
        self.address = address
        self.length = length
        #: a name in TYPES, or None: elements that cannot be reduced
        self.type = type_name
        self.owner = owner
        self._buffer = buffer

    def release(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            _release(byref(buffer))
        self.owner = None


def _type_of(text: str, size: int) -> Optional[str]:
    if text[:1] in ("@", "=", "<"):
        text = text[1:]
    kind = _KINDS.get(text)
    name = f"{kind}{8 * size}"
    return name if name in TYPES else None


def of_buffer(thing: Any, writable: bool, type_name: Optional[str] = None) -> Memory:
    """Memory of an object with the buffer protocol. A BufferError or TypeError says why it has none that fits."""
    buffer = _Buffer()
    _get(thing, byref(buffer), _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
    if type_name is not None and type_name not in TYPES:
        _release(byref(buffer))
        raise ValueError(f"type {type_name!r}: one of {', '.join(TYPES)} is expected")
    found = _type_of((buffer.format or b"B").decode(), buffer.itemsize)
    return Memory(buffer.buf or 0, buffer.len, type_name or found, thing, buffer)
