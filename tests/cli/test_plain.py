"""Command lines that are read without a parser."""

from pathlib import Path

import pytest

from chordmq.cli.plain import Given, read


def test_settings_are_read_as_the_parser_would() -> None:
    words = "serve --set kafka.port=1 -c first.yaml --config node.yaml --insecure --set a=-b"
    given = Given(Path("node.yaml"), ["kafka.port=1", "a=-b"], True)
    assert read(words.split()) == given
    assert read(["serve"]) == Given(None, [], False)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "up",
        "topics list",
        "--json serve",
        "serve --help",
        "serve --set",
        "serve --set --insecure",
        "serve --set=kafka.port=1",
        "serve node.yaml",
        "serve --unknown value",
    ],
)
def test_the_parser_gets_everything_else(words: str) -> None:
    assert read(words.split()) is None
