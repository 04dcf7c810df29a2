"""E4: clients made for any AMQP 1.0 broker, unmodified: rhea and Qpid JMS; proton has own tests."""

from tests.interop.program import ROOT, built, installed, run
from tests.interop.test_java import CLASSES, LIBRARIES, OPTIONS
from tests.running_node import RunningNode

PROGRAMS = ROOT / "tests" / "interop" / "js"


def test_rhea_finds_what_it_expects(node: RunningNode, name: str) -> None:
    """E4: types, credit by hand, outcomes, a topic from its beginning, replies, errors."""
    built(PROGRAMS / "node_modules" / "rhea")
    run([installed("node"), PROGRAMS / "rhea.mjs", str(node.amqp_address[1]), name])


def test_qpid_jms_finds_what_it_expects(node: RunningNode, name: str) -> None:
    """E4: all kinds of messages, acknowledgement, replies, topics, durable subscriptions."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    port = str(node.amqp_address[1])
    run([installed("java"), *OPTIONS, "-cp", classpath, "JmsCheck", port, name])
