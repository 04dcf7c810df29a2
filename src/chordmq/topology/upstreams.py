"""Which kind of pipe leads to a source: its address says so."""

from chordmq.client.security import Security
from chordmq.topology.calling import Source
from chordmq.topology.kafka_upstream import SCHEME, KafkaUpstream
from chordmq.topology.settings import PipesSettings
from chordmq.topology.upstream import HttpUpstream, Upstream


class Upstreams:
    """Opens sources: as a Kafka for `kafka://`, else as a cluster of ours."""

    def __init__(self, settings: PipesSettings, security: Security) -> None:
        self._settings = settings
        self._security = security
        self._context = security.context()

    def open(self, source: Source) -> Upstream:
        """Return a source as a pipe sees it; nobody is called yet."""
        if source.url.startswith(SCHEME):
            return KafkaUpstream(source, self._settings, self._security)
        return HttpUpstream(source, self._settings, self._context)
