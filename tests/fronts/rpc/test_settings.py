"""Whether a procedure-call front is there: as its libraries and its settings say."""

from typing import ClassVar

import pytest

from chordmq.errors import CannotStart
from chordmq.fronts.rpc.settings import RpcSettings


class Missing(RpcSettings):
    """A front whose library nobody has."""

    libraries: ClassVar[tuple[str, ...]] = ("json", "no_such_library")


class Nested(RpcSettings):
    """A front whose library would be part of a package that nobody has."""

    libraries: ClassVar[tuple[str, ...]] = ("no_such_package.library",)


class Installed(RpcSettings):
    """A front whose library everybody has."""

    libraries: ClassVar[tuple[str, ...]] = ("json",)


def test_a_front_that_must_be_there_says_what_to_install() -> None:
    with pytest.raises(CannotStart, match=r"pip install 'chordmq\[capnp\]'"):
        Missing(enabled="on").is_wanted("capnp")


@pytest.mark.parametrize(
    "settings", [Missing(), Nested(), Missing(enabled="off"), Installed(enabled="off")]
)
def test_a_front_that_need_not_be_there_is_not(settings: RpcSettings) -> None:
    assert not settings.is_wanted("capnp")


@pytest.mark.parametrize("settings", [Installed(), Installed(enabled="on")])
def test_a_front_is_there_if_its_library_is(settings: RpcSettings) -> None:
    assert settings.is_wanted("capnp")
