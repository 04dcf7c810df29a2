"""Our named tuples are those of the standard library, made faster."""

import copy
import pickle
import typing
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec
import pytest

from chordmq.named_tuple import Named

T = TypeVar("T")


class OurPoint(Named):
    """Where something is."""

    x: int
    y: int = 2

    @property
    def norm(self) -> int:
        """Return how far away it is."""
        return abs(self.x) + abs(self.y)

    def __str__(self) -> str:
        return f"{self.x}/{self.y}"


class LibraryPoint(typing.NamedTuple):
    """Where something is."""

    x: int
    y: int = 2

    @property
    def norm(self) -> int:
        """Return how far away it is."""
        return abs(self.x) + abs(self.y)

    def __str__(self) -> str:
        return f"{self.x}/{self.y}"


class OurBox(Named, Generic[T]):
    """Holds something."""

    content: T


class LibraryBox(typing.NamedTuple, Generic[T]):
    """Holds something."""

    content: T


@pytest.fixture(params=[LibraryPoint, OurPoint])
def point(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_objects_are_made_from_positions_names_and_defaults(point: Any) -> None:
    for _ in range(2):  # the first one writes the method that makes all
        assert point(1) == point(x=1) == point(1, 2) == point(y=2, x=1) == (1, 2)
        for wrong in ((), (1, 2, 3)):
            with pytest.raises(TypeError):
                point(*wrong)
        with pytest.raises(TypeError):
            point(1, z=3)
    first, second = point(3, 4)
    assert (first, second) == (point(3, 4).x, point(3, 4)[1])


def test_an_object_is_a_tuple_with_the_methods_of_its_class(point: Any) -> None:
    one = point(3, -4)
    assert issubclass(point, tuple)
    assert (one.norm, str(one), hash(one)) == (7, "3/-4", hash((3, -4)))
    assert repr(one) == f"{point.__name__}(x=3, y=-4)"
    assert not hasattr(one, "__dict__")
    with pytest.raises(AttributeError):
        one.x = 4
    match one:
        case point(x, y):
            assert (x, y) == (3, -4)


def test_objects_are_replaced_listed_copied_and_packed(point: Any) -> None:
    one = point(3)
    assert one._replace(y=5) == (3, 5)
    with pytest.raises(ValueError, match="z"):
        one._replace(z=5)
    assert one._asdict() == {"x": 3, "y": 2}
    assert point._make([7, 8]) == (7, 8)
    with pytest.raises(TypeError):
        point._make([7])
    for same in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (type(same), same) == (point, one)
    assert msgspec.json.decode(b"[1, 9]", type=point) == point(1, 9)


def test_a_class_says_what_it_has(point: Any) -> None:
    assert point._fields == point.__match_args__ == ("x", "y")
    assert point._field_defaults == {"y": 2}
    assert get_type_hints(point) == {"x": int, "y": int}
    assert (point.__doc__, point.__module__) == ("Where something is.", __name__)


@pytest.mark.parametrize("box", [LibraryBox, OurBox])
def test_a_class_may_be_generic(box: Any) -> None:
    assert box[int](1).content == box("x")._replace(content=1).content == 1


def test_the_method_that_makes_objects_is_written_with_the_first() -> None:
    class Pair(Named):
        left: int
        right: int

    unwritten = Pair.__new__
    _ = Pair(1, 2)  # type: ignore[call-arg]
    assert Pair.__new__ is not unwritten
