"""One group member of librdkafka that tells what happens to it, as `java/GroupMember.java` does.

Arguments: bootstrap address, topic (or a pattern that starts with ^), and settings as name=value.
"""

import select
import sys

from confluent_kafka import Consumer, KafkaException, TopicPartition


def main() -> None:
    """Read and commit until the standard input ends, then leave the group."""
    bootstrap, topic, *rest = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **dict(setting.split("=", 1) for setting in rest),
        }
    )
    consumer.subscribe(
        [topic], on_assign=_on("assigned"), on_revoke=_on("revoked"), on_lost=_on("lost")
    )
    while not select.select([sys.stdin], [], [], 0)[0]:
        messages = [m for m in consumer.consume(500, 0.05) if m.error() is None]
        for message in messages:
            say("read", [(message.value() or b"").decode()])
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                say("uncommitted", [error.args[0].name()])
    consumer.close()


def _on(what: str):  # type: ignore[no-untyped-def]
    def told(_: Consumer, partitions: list[TopicPartition]) -> None:
        say(what, sorted(f"{part.topic}-{part.partition}" for part in partitions))

    return told


def say(what: str, names: list[str]) -> None:
    """Print one line about one event."""
    print(what, *names, flush=True)


main()
