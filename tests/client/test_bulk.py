"""Reading in bulk, from brokers that may be away."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from chordmq.client.bulk import Bulk, BulkSettings
from chordmq.client.errors import CannotConnect
from tests.running_node import RunningNode, free_port


def test_who_has_no_patience_hears_at_once_that_nobody_is_there() -> None:
    nowhere = BulkSettings(bootstrap=f"127.0.0.1:{free_port()}", open_patience_s=0.0)
    with pytest.raises(CannotConnect), Bulk(nowhere):
        pass


def test_a_broker_that_is_away_at_first_is_waited_for(own_node: RunningNode) -> None:
    """P6: a task of Spark, or an archiver, that begins while the broker restarts goes on."""

    def reach() -> list[tuple[str, int]]:
        with Bulk(BulkSettings(bootstrap=own_node.bootstrap)) as broker:
            return broker.places_like("t-.*")

    own_node.kill9()
    with ThreadPoolExecutor(1) as beside:
        reached = beside.submit(reach)
        own_node.start()
        assert reached.result(60) == []
