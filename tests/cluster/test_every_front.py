"""X1 over nodes: what any front takes at one node, every front gives at another, without copies."""

import uuid

import pytest

from tests.cluster.running_cluster import RunningCluster, place
from tests.interop.doors.door import Sample
from tests.interop.test_matrix import DOORS

pytestmark = pytest.mark.interop

ASKED, HOLDING, READ = 1, 2, 3
TIME_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def published(calm_cluster: RunningCluster) -> tuple[str, list[Sample]]:
    """Return a topic of one node with a message from every front of another, in order."""
    topic = f"every-front-{uuid.uuid4().hex[:8]}"
    place(calm_cluster, topic, [[HOLDING]])
    samples = []
    for number, (name, door) in enumerate(DOORS.items()):
        sample = Sample(b"key", f"through {name}".encode(), (("n", b"%d" % number),), TIME_MS)
        door.produce(calm_cluster.nodes[ASKED], topic, sample)
        samples.append(door.carried(sample))
    return topic, samples


@pytest.mark.parametrize("receiver", DOORS)
def test_a_node_without_a_copy_gives_what_another_without_a_copy_has_taken(
    calm_cluster: RunningCluster, published: tuple[str, list[Sample]], receiver: str
) -> None:
    """X1, A4: any node can be asked anything, through every front."""
    topic, samples = published
    found = DOORS[receiver].consume(calm_cluster.nodes[READ], topic, len(samples))
    assert found == samples
