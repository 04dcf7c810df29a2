"""Errors as exceptions of Cap'n Proto: `<Error>: <reason>`, and nothing of this node's code."""


class Failed(Exception):
    """What was asked of the node came to nothing."""

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(f"{error}: {reason}")
        self.error = error
        self.reason = reason


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


def refusal(error: str, reason: str) -> Refusal:
    """Return what the client is told of an error."""
    kind = _kinds.get(error)
    if kind is None:
        # A traceback shows no module for what Python itself defines.
        kind = _kinds[error] = type(error, (Refusal,), {"__module__": "builtins"})
    return kind(reason)
