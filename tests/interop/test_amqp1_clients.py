"""E4: a client made for any AMQP 1.0 broker, unmodified: rhea; proton has tests of its own."""

from tests.interop.program import ROOT, built, installed, run
from tests.running_node import RunningNode

PROGRAMS = ROOT / "tests" / "interop" / "js"


def test_rhea_finds_what_it_expects(node: RunningNode, name: str) -> None:
    """E4: types, credit by hand, outcomes, a topic from its beginning, replies, errors."""
    built(PROGRAMS / "node_modules" / "rhea")
    run([installed("node"), PROGRAMS / "rhea.mjs", str(node.amqp_address[1]), name])
