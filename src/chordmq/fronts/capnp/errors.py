"""Our errors as exceptions of Cap'n Proto: `<Error>: <reason>`, and nothing of this node's code."""

from chordmq.errors import ChordMQError


class Refusal(Exception):
    """What a client is told.

    pycapnp sends the text of a traceback: that of an exception of this kind is its name and its
    reason only.
    """

    @property
    def __traceback__(self) -> None:
        """Return nothing, so that the client does not see where in the code it was raised."""

    @__traceback__.setter
    def __traceback__(self, value: object) -> None:
        """Keep nothing."""


_kinds: dict[str, type[Refusal]] = {}


def refusal(error: ChordMQError) -> Refusal:
    """Return what the client is told of an error."""
    return _refusal(type(error).__name__, str(error))


def internal_fault() -> Refusal:
    """Return what the client is told of a fault of this node."""
    return _refusal("InternalError", "a fault of this node; its log says more")


def _refusal(name: str, reason: str) -> Refusal:
    kind = _kinds.get(name)
    if kind is None:
        # A traceback shows no module for what Python itself defines.
        kind = _kinds[name] = type(name, (Refusal,), {"__module__": "builtins"})
    return kind(reason)
