"""E5: who is connected."""

from chordmq.broker.presence import ClientFacts, Presence


class Somebody:
    def __init__(self, name: str) -> None:
        self.name = name

    def facts(self) -> ClientFacts:
        return ClientFacts(
            id=self.name,
            name=self.name,
            protocol="test",
            user="ANONYMOUS",
            host="127.0.0.1",
            connected_ms=1,
            subscriptions=[],
        )


def test_clients_are_there_from_coming_to_leaving() -> None:
    presence, one, other = Presence(), Somebody("one"), Somebody("other")
    presence.enter(one)
    presence.enter(other)
    assert [client.name for client in presence] == ["one", "other"]
    presence.leave(one)
    presence.leave(one)
    assert len(presence) == 1
