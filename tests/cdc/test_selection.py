"""Which tables and columns are told."""

from chordmq.cdc.change import Place
from chordmq.cdc.selection import Selection, Shown, chosen
from chordmq.cdc.settings import Columns, Names

ORDERS = Place("public", "orders")


def test_without_lists_everything_is_told() -> None:
    selection = Selection(Names(), Columns())
    assert selection.has(ORDERS)
    assert selection.tells_all_columns
    assert selection.column(ORDERS, "id") == Shown("id", None)


def test_names_match_as_a_whole_and_excluded_beats_included() -> None:
    names = Names(include=[r"public\..*"], exclude=[r"public\.secret"])
    selection = Selection(names, Columns())
    assert selection.has(ORDERS)
    assert not selection.has(Place("public", "secret"))
    assert selection.has(Place("public", "secrets"))
    assert not selection.has(Place("other", "orders"))


def test_columns_are_left_out_masked_and_renamed() -> None:
    columns = Columns(exclude=[r".*\.pin"], mask={r".*\.card": "*"}, rename={r".*\.nm": "name"})
    selection = Selection(Names(), columns)
    assert selection.column(ORDERS, "pin") is None
    assert selection.column(ORDERS, "card") == Shown("card", "*")
    assert selection.column(ORDERS, "nm") == Shown("name", None)
    assert not selection.tells_all_columns


def test_the_chosen_are_in_a_fixed_order() -> None:
    places = [Place("b", "x"), Place("a", "y"), Place("a", "x")]
    selection = Selection(Names(exclude=[r"a\.y"]), Columns())
    assert chosen(places, selection) == [Place("a", "x"), Place("b", "x")]
