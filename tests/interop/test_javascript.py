"""KafkaJS and @platformatic/kafka, unmodified, by the programs in `js/`."""

import pytest

from tests.interop.program import ROOT, built, installed, run

PROGRAMS = ROOT / "tests" / "interop" / "js"


@pytest.mark.parametrize("check", ["records", "resume", "admin"])
def test_kafkajs_finds_what_it_expects(bootstrap: str, name: str, check: str) -> None:
    """C1, C3, C5, A5: an older client, with mostly non-flexible versions."""
    _run("kafkajs", bootstrap, name, check)


@pytest.mark.parametrize("check", ["records", "resume"])
def test_platformatic_finds_what_it_expects(bootstrap: str, name: str, check: str) -> None:
    """C1, C3, C5, A5: a young client that asks for high minimal versions."""
    _run("platformatic", bootstrap, name, check)


def _run(client: str, bootstrap: str, name: str, check: str) -> None:
    built(PROGRAMS / "node_modules")
    run([installed("node"), PROGRAMS / f"{client}.mjs", bootstrap, name, check])
