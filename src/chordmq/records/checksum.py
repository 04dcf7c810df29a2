"""CRC-32C, the checksum of record batches, in the processor's own instruction where it has one."""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

Checksum = Callable[..., int]
"""Takes bytes, and the checksum of what stands before them."""


def _load() -> Checksum:
    """Take the function out of its package without loading that.

    To know its own version, the package loads what reads archives and mail: 2 MB in each process.
    """
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    compiled = PathFinder.find_spec("_crc32c", places)
    if compiled is None or compiled.loader is None:
        from crc32c import crc32c

        return crc32c
    module = module_from_spec(compiled)
    compiled.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


crc32c = _load()
