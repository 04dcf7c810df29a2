"""What the settings of topics say about replicas."""

from chordmq.broker.settings import BrokerSettings
from chordmq.broker.topic import in_force
from chordmq.cluster.elections import Rules
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Event
from chordmq.cluster.state import DEFAULTS, TOPICS, Settings, TopicState, decode, name_of


class RuleBook:
    """The rules of each topic, read from the store itself."""

    def __init__(self, image: Image, settings: BrokerSettings) -> None:
        self._image = image
        self._settings = settings
        self._rules: dict[bytes, Rules] = {}
        image.listen(TOPICS, self._forget)
        image.listen(DEFAULTS.partition("/")[0], self._forget)

    def __call__(self, topic_id: bytes) -> Rules:
        """Return the rules of a topic; the safest for one that is not there."""
        if not self._rules:
            for entry in self._image.under(TOPICS):
                topic = decode(entry, TopicState)
                self._rules[bytes.fromhex(topic.id)] = self._read(topic, name_of(entry.key))
        return self._rules.get(topic_id, Rules(is_durable=False))

    def _read(self, topic: TopicState, name: str) -> Rules:
        defaults = self._image.get(DEFAULTS)
        dynamic = decode(defaults, Settings).settings if defaults else {}
        defaults_now = self._settings.with_dynamic(dynamic).topic_defaults()
        settings = in_force(defaults_now, topic.settings, name)
        return Rules(
            min_in_sync=settings.min_insync_replicas,
            is_durable=settings.flushes_to_disk,
            allows_unclean=settings.unclean_leader_election_enable,
            follows_ring=not topic.is_manual,
        )

    def _forget(self, _events: list[Event]) -> None:
        self._rules.clear()
