"""Cap'n Proto clients of other makes: Cap'n Proto's own library in C++, and pycapnp as it is."""

import sys
from pathlib import Path

from scripts.test_tools import CAPNP_SCHEMA, CPP_PROGRAM
from tests.interop.program import built, run
from tests.running_node import RunningNode


def test_a_client_in_cpp_streams_shares_and_acknowledges(node: RunningNode, name: str) -> None:
    """A1, A3: streams with flow control, promise pipelining, a shared index, errors by name."""
    host, port = node.capnp_address
    count = 20_000
    output = run([built(CPP_PROGRAM), f"{host}:{port}", name, str(count)]).decode().splitlines()
    total = count * (count - 1) // 2
    assert output[0] == f"stored {count}, received {count}, sum {total}, in order"
    assert output[1].endswith("UnknownTopic: no topic nowhere")


def test_a_client_that_knows_the_schema_file_only(node: RunningNode, name: str) -> None:
    """A1, A2, A5: publish, stream, subscribe, commit, resume."""
    script = Path(__file__).with_name("capnp_client.py")
    host, port = node.capnp_address
    output = run([sys.executable, "-I", script, CAPNP_SCHEMA, host, str(port), name]).decode()
    assert output.splitlines() == [
        "[0, 1] [b'one', b'two']",
        "100",
        "100 b'0' b'9'",
        "remote exception: message = UnknownTopic: no topic nowhere",
    ]
