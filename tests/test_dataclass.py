"""Our dataclasses are those of the standard library, made faster."""

import copy
import dataclasses
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from chordmq.dataclass import make

T = TypeVar("T")
BOTH: list[Callable[..., Any]] = [dataclasses.dataclass, make]


def family(dataclass: Callable[..., Any]) -> dict[str, Any]:
    """Return classes that use everything which ours do."""

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        unit: ClassVar[str] = "m"

        def norm(self) -> int:
            return abs(self.x) + abs(self.y)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named(Point):
        y: int = 5
        name: str
        tags: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="", repr=False)

    @dataclass(slots=True)
    class Open:
        value: Any = None
        seen: list[int] = field(default_factory=list, init=False)
        count: int = field(default=1, init=False)

        def __post_init__(self) -> None:
            self.seen.append(self.count)

    @dataclass(slots=True, eq=False)
    class Alone:
        value: int = 0

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(frozen=True, slots=True)
    class Own:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.text.lower() == self.text.lower()

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    @dataclass(slots=True)
    class Box(Generic[T]):
        content: T

    return {k: v for k, v in locals().items() if isinstance(v, type)}


@pytest.fixture(params=BOTH, ids=["library", "ours"])
def kinds(request: pytest.FixtureRequest) -> Any:
    return type("Kinds", (), family(request.param))


def test_objects_are_made_from_positions_names_and_defaults(kinds: Any) -> None:
    assert (kinds.Point(1).y, kinds.Point(1, 3).y, kinds.Point(y=4, x=0).y) == (2, 3, 4)
    named = kinds.Named(1, name="n")
    assert (named.x, named.y, named.name, named.tags, named.norm()) == (1, 5, "n", [], 6)
    assert kinds.Named(1, name="a").tags is not named.tags
    for wrong in ({}, {"x": 1, "z": 2}):
        with pytest.raises(TypeError):
            kinds.Point(**wrong)
    with pytest.raises(TypeError):
        kinds.Named(1, 2, "n")
    opened = kinds.Open(3)
    assert (opened.value, opened.seen, opened.count) == (3, [1], 1)
    with pytest.raises(TypeError):
        kinds.Open(3, count=2)
    assert kinds.Box("content").content == "content"
    assert kinds.Box[int](1).content == 1


def test_objects_are_alike_however_many_there_are(kinds: Any) -> None:
    for number in range(5):
        named = kinds.Named(x=number, name="n")
        assert (named.x, named.y, named.name, named.tags, named.secret) == (number, 5, "n", [], "")
        opened = kinds.Open(value=number)
        assert (opened.value, opened.seen, opened.count) == (number, [1], 1)
        for wrong in ({}, {"x": 1}, {"x": 1, "name": "n", "z": 2}):
            with pytest.raises(TypeError):
                kinds.Named(**wrong)


def test_a_class_with_few_objects_has_no_method_written_for_it() -> None:
    kind = family(make)["Point"]
    unwritten = kind.__init__
    _ = kind(x=1), kind(x=2)
    assert kind.__init__ is unwritten
    _ = kind(x=3)
    assert kind.__init__ is not unwritten


def test_what_a_class_says_of_itself(kinds: Any) -> None:
    assert [one.name for one in fields(kinds.Named)] == ["x", "y", "name", "tags", "secret"]
    assert [one.kw_only for one in fields(kinds.Named)] == [False, True, True, True, True]
    assert kinds.Named.__match_args__ == ("x",)
    assert kinds.Named.__slots__ == ("name", "tags", "secret")
    assert kinds.Point.unit == "m"
    assert not hasattr(kinds.Point(1), "__dict__")
    assert kinds.Point.__qualname__.endswith("family.<locals>.Point")
    match kinds.Point(1, 9):
        case kinds.Point(x, y):
            assert (x, y) == (1, 9)


def test_objects_can_be_compared_hashed_and_shown(kinds: Any) -> None:
    assert kinds.Point(1) == kinds.Point(1, 2) != kinds.Point(2)
    assert kinds.Point(1) != kinds.Named(1, name="", y=2)
    assert kinds.Named(1, name="", tags=["a"]) == kinds.Named(1, name="")
    assert {kinds.Point(1): 3}[kinds.Point(1)] == 3
    with pytest.raises(TypeError):
        hash(kinds.Open())
    assert kinds.Open([1]) == kinds.Open([1])
    alone = kinds.Alone()
    assert alone != kinds.Alone()
    assert hash(alone) == hash(alone)
    assert kinds.Empty() == kinds.Empty()
    assert hash(kinds.Empty()) == hash(kinds.Empty())
    assert kinds.Own("A") == kinds.Own("a")
    assert hash(kinds.Own("x")) == 7
    assert repr(kinds.Own("x")) == "own"
    shown = repr(kinds.Named(1, name="n", secret="s"))
    assert shown.endswith("Named(x=1, y=5, name='n', tags=[])")
    opened = kinds.Open()
    opened.value = opened
    assert repr(opened).endswith("Open(value=..., seen=[1], count=1)")


def test_what_is_frozen_stays(kinds: Any) -> None:
    point = kinds.Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2
    with pytest.raises(FrozenInstanceError):
        del point.x
    opened = kinds.Open()
    opened.value = 2
    with pytest.raises(AttributeError):
        opened.other = 2


def test_the_library_knows_our_classes(kinds: Any) -> None:
    named = kinds.Named(1, name="n")
    assert replace(named, name="m", x=2) == kinds.Named(2, name="m")
    assert asdict(named) == {"x": 1, "y": 5, "name": "n", "tags": [], "secret": ""}
    assert dataclasses.is_dataclass(named)
    assert copy.copy(named) == copy.deepcopy(named) == named

    @dataclasses.dataclass(frozen=True)
    class Derived(kinds.Point):  # type: ignore[misc]
        z: int = 0

    assert Derived(1, 2, 3) == Derived(1, 2, 3) != Derived(1)


@make(frozen=True, slots=True)
class Kept:
    """One that can be found by its name."""

    number: int
    numbers: list[int] = field(default_factory=list)


def test_frozen_objects_can_be_stored() -> None:
    kept = Kept(1, [2])  # type: ignore[call-arg]
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_what_is_abstract_stays_abstract() -> None:
    @make(slots=True)
    class Shape(ABC):
        size: int

        @abstractmethod
        def area(self) -> int: ...

    with pytest.raises(TypeError):
        Shape(1)  # type: ignore[abstract, call-arg]
