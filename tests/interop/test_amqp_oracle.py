"""E4: the same operations on a real RabbitMQ and on a node have the same outcomes."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError, UnroutableError

from benchmarks.rabbitmq import RabbitMQ
from tests.interop.amqp_client import WAIT_S, Client, Properties
from tests.interop.amqp_streams import stream_refused, streamed
from tests.running_node import RunningNode

pytestmark = pytest.mark.interop


def requeued(client: Client) -> Any:
    queue = client.queue("q")
    client.channel.confirm_delivery()
    client.send("", queue, "a", "b", "c", "d")
    tags = [client.channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    client.channel.basic_nack(tags[1], requeue=True)
    client.channel.basic_reject(tags[2], requeue=True)
    client.channel.basic_ack(tags[0])
    found = []
    for _ in range(3):
        method, _, body = client.channel.basic_get(queue)
        found.append((body, method.redelivered, method.message_count))
    client.channel.basic_nack(0, multiple=True, requeue=True)
    return [found, client.take(queue)]


def acknowledged_together(client: Client) -> Any:
    queue = client.queue("q")
    client.channel.confirm_delivery()
    client.send("", queue, *"abcdef")
    tags = [client.channel.basic_get(queue)[0].delivery_tag for _ in range(5)]
    client.channel.basic_ack(tags[2], multiple=True)
    client.channel.basic_recover(requeue=True)
    return [client.count(queue), client.take(queue)]


def routed(client: Client) -> Any:
    found = []
    queues = {text: client.queue(text) for text in "abcde"}
    channel = client.channel
    channel.confirm_delivery()
    direct, fanout = client.exchange("direct", "direct"), client.exchange("fanout", "fanout")
    topic, headers = client.exchange("topic", "topic"), client.exchange("headers", "headers")
    other = client.exchange("other", "fanout")
    lost = client.exchange("lost", "direct", arguments={"alternate-exchange": other})
    channel.queue_bind(queues["a"], direct, "red")
    channel.queue_bind(queues["b"], direct, "red")
    channel.queue_bind(queues["b"], direct, "blue")
    channel.queue_bind(queues["a"], fanout)
    channel.queue_bind(queues["c"], fanout, "whatever")
    for text, pattern in (("a", "a.*.c"), ("b", "a.#"), ("c", "#.c"), ("d", "#"), ("e", "*")):
        channel.queue_bind(queues[text], topic, pattern)
    both = {"x-match": "all", "n": 1, "s": "x"}
    channel.queue_bind(queues["a"], headers, arguments=both)
    channel.queue_bind(queues["b"], headers, arguments=both | {"x-match": "any"})
    channel.queue_bind(queues["c"], headers, arguments={"x-match": "all", "x-own": 1})
    channel.exchange_bind(topic, direct, "over")
    channel.queue_bind(queues["e"], other)
    sent = [(direct, "red"), (direct, "blue"), (direct, "none"), (fanout, ""), (lost, "nowhere")]
    sent += [(topic, key) for key in ("a.b.c", "a", "", "a.c", "x.c", "a.b.c.d", "..", "c")]
    sent += [(direct, "over"), ("", queues["d"])]
    for number, (exchange, key) in enumerate(sent):
        client.send(exchange, key, str(number))
    for number, given in enumerate(({"n": 1, "s": "x"}, {"n": 1}, {"n": 2}, {"s": "x", "z": 1})):
        client.send(headers, "", f"h{number}", headers=given)
    for text, queue in queues.items():
        found.append((text, client.take(queue)))
    channel.queue_unbind(queues["b"], direct, "red")
    channel.exchange_unbind(topic, direct, "over")
    client.send(direct, "red", "later")
    client.send(direct, "over", "over later")
    return [found, [(text, client.take(queue)) for text, queue in queues.items()]]


def copied(client: Client) -> Any:
    queues = [client.queue(text) for text in "abc"]
    channel = client.channel
    channel.confirm_delivery()
    client.send("", queues[0], "x", headers={"CC": [queues[1]], "BCC": [queues[2]]})
    return [[client.plain(client.one(queue)[1].headers) for queue in queues]]


def returned(client: Client) -> Any:
    exchange, queue = client.exchange("e", "direct"), client.queue("q")
    client.channel.confirm_delivery()
    found: list[Any] = []
    for target, key, mandatory in (
        ("", queue, True), (exchange, "k", True), (exchange, "k", False), ("", "none", True),
    ):  # fmt: skip
        try:
            client.channel.basic_publish(target, key, b"x", mandatory=mandatory)
            found.append("taken")
        except UnroutableError as error:
            found += [(one.method.reply_code, one.body) for one in error.messages]
    return found


def dead(client: Client) -> Any:
    graves, exchange = client.queue("graves"), client.exchange("dlx", "topic")
    client.channel.queue_bind(graves, exchange, "#")
    client.channel.confirm_delivery()
    rules = {"x-dead-letter-exchange": exchange}
    plain = client.queue("plain", arguments=rules)
    keyed = client.queue("keyed", arguments=rules | {"x-dead-letter-routing-key": "grave.key"})
    short = client.queue("short", arguments=rules | {"x-max-length": 1})
    timed = client.queue("timed", arguments=rules | {"x-message-ttl": 1})
    found = []
    for queue in (plain, keyed):
        client.send("", queue, "refused", headers={"own": "header"}, content_type="text/x")
        method, _, _ = client.channel.basic_get(queue)
        client.channel.basic_nack(method.delivery_tag, requeue=False)
        found.append(client.one(graves))
    client.send("", short, "first", "second")
    found.append(client.one(graves))
    client.send("", timed, "late", expiration="60000")
    found.append(client.one(graves))
    client.send("", plain, "soon", expiration="1")
    found.append(client.one(graves))
    return [
        (
            client.plain(method.routing_key),
            body,
            client.plain(properties.headers),
            properties.expiration,
            properties.content_type,
        )
        for method, properties, body in found
    ]


def dead_again(client: Client) -> Any:
    again = client.name("again")
    rules = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": again}
    client.queue("again", arguments=rules)
    client.channel.confirm_delivery()
    client.send("", again, "round")
    for _ in range(3):
        deadline = time.monotonic() + WAIT_S
        while (found := client.channel.basic_get(again))[0] is None:
            assert time.monotonic() < deadline
        client.channel.basic_reject(found[0].delivery_tag, requeue=False)
    return client.plain(client.one(again)[1].headers)


def in_circles(client: Client) -> Any:
    rules = {"x-dead-letter-exchange": "", "x-message-ttl": 1}
    circle = client.queue("circle", arguments=rules)
    client.channel.confirm_delivery()
    client.send("", circle, "round")
    deadline = time.monotonic() + WAIT_S
    while client.count(circle) and time.monotonic() < deadline:
        pass
    return client.count(circle)


def prioritised(client: Client) -> Any:
    queue = client.queue("q", arguments={"x-max-priority": 5})
    client.channel.confirm_delivery()
    for body, priority in (("a", 1), ("b", 9), ("c", None), ("d", 5), ("e", 3), ("f", 1)):
        client.send("", queue, body, priority=priority)
    return client.take(queue)


def limited(client: Client) -> Any:
    client.channel.confirm_delivery()
    head = client.queue("head", arguments={"x-max-length": 2})
    octets = client.queue("octets", arguments={"x-max-length-bytes": 5})
    refusing = client.queue(
        "refusing", arguments={"x-max-length": 2, "x-overflow": "reject-publish"}
    )
    for queue in (head, octets):
        client.send("", queue, "one", "two", "three")
    refused = 0
    for body in "abcd":
        try:
            client.send("", refusing, body)
        except NackError:
            refused += 1
    return [client.take(head), client.take(octets), client.take(refusing), refused]


def expired(client: Client) -> Any:
    client.channel.confirm_delivery()
    queue, timed = client.queue("q"), client.queue("timed", arguments={"x-message-ttl": 1})
    client.send("", queue, "long", expiration="60000")
    client.send("", queue, "short", expiration="1")
    client.send("", timed, "gone")
    deadline = time.monotonic() + WAIT_S
    while client.count(timed) and time.monotonic() < deadline:
        pass
    return [client.take(queue), client.take(timed)]


def transacted(client: Client) -> Any:
    queue = client.queue("q")
    channel = client.new_channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"one")
    before = client.count(queue)
    channel.tx_commit()
    after = client.count(queue)
    channel.basic_publish("", queue, b"two")
    channel.tx_rollback()
    rolled = client.count(queue)
    method, _, _ = channel.basic_get(queue)
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    return [before, after, rolled, client.count(queue)]


def prefetched(client: Client) -> Any:
    queue = client.queue("q")
    client.channel.confirm_delivery()
    client.send("", queue, *map(str, range(20)))
    found: list[int] = []
    for count, is_global, allowed in ((3, False, 6), (5, True, 5)):
        channel = client.new_channel()
        channel.basic_qos(prefetch_count=count, global_qos=is_global)
        got: list[bytes] = []
        for _ in range(2):
            channel.basic_consume(queue, lambda c, m, p, body, got=got: got.append(body))
        deadline = time.monotonic() + WAIT_S
        while len(got) < allowed and time.monotonic() < deadline:
            channel.connection.process_data_events(0.05)
        channel.connection.process_data_events(0.4)  # in which one too many would come
        found.append(len(got))
        channel.connection.close()
    deadline = time.monotonic() + WAIT_S
    while client.count(queue) < 20 and time.monotonic() < deadline:
        pass
    return [found, client.count(queue)]


def shared_in_order(client: Client) -> Any:
    """Consumers of a higher priority come first; a single active one has all."""
    found = []
    for text, arguments in (("single", {"x-single-active-consumer": True}), ("many", {})):
        queue = client.queue(text, arguments=arguments)
        got: list[tuple[str, bytes]] = []
        channel = client.new_channel()
        for tag, priority in (("low", 0), ("high", 10)):
            channel.basic_consume(
                queue,
                lambda c, m, p, body, got=got: got.append((m.consumer_tag, body)),
                auto_ack=True,
                consumer_tag=tag,
                arguments={"x-priority": priority},
            )
        client.send("", queue, *"abcd")
        deadline = time.monotonic() + WAIT_S
        while len(got) < 4 and time.monotonic() < deadline:
            channel.connection.process_data_events(0.05)
        channel.basic_cancel("low" if text == "single" else "high")
        client.send("", queue, "e")
        while len(got) < 5 and time.monotonic() < deadline:
            channel.connection.process_data_events(0.05)
        found.append(got)
    return found


def cancelled(client: Client) -> Any:
    queue = client.queue("q")
    channel = client.new_channel()
    told: list[str] = []
    channel.add_on_cancel_callback(lambda method: told.append(method.method.consumer_tag))
    channel.basic_consume(queue, lambda *_: None, consumer_tag="mine")
    client.channel.queue_delete(queue)
    deadline = time.monotonic() + WAIT_S
    while not told and time.monotonic() < deadline:
        channel.connection.process_data_events(0.05)
    return told


def passive(queue: str, channel: BlockingChannel) -> None:
    channel.queue_declare(queue, passive=True)


def gone_by_itself(client: Client) -> Any:
    """Auto-delete queues and exchanges, exclusive queues, queues that nobody uses."""
    channel = client.new_channel()
    for text, more in (("auto", {"auto_delete": True}), ("own", {"exclusive": True})):
        channel.queue_declare(client.name(text), **more)
    channel.queue_declare(client.name("short"), arguments={"x-expires": 50})
    exchange = client.name("e")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.queue_bind(client.name("own"), exchange)
    channel.basic_consume(client.name("auto"), lambda *_: None, consumer_tag="t")
    before = [client.refusal(partial(passive, client.name(text))) for text in ("auto", "own")]
    channel.basic_cancel("t")
    channel.connection.close()
    deadline = time.monotonic() + WAIT_S
    after: list[Any] = []
    pause_s = 0.1
    while time.monotonic() < deadline:
        time.sleep(pause_s)  # to look at a queue is to use it: "short" goes when nobody looks
        pause_s *= 2
        after = [
            client.refusal(partial(passive, client.name(text))) for text in ("auto", "own", "short")
        ]
        after.append(client.refusal(lambda c: c.exchange_declare(exchange, passive=True)))
        if all(one == ["channel", 404] for one in after):
            break
    return [before, after]


def counted(client: Client) -> Any:
    queue = client.queue("q")
    client.channel.confirm_delivery()
    client.send("", queue, *"abc")
    used = client.refusal(lambda c: c.queue_delete(queue, if_empty=True))
    purged = client.channel.queue_purge(queue).method.message_count
    client.send("", queue, *"de")
    deleted = client.channel.queue_delete(queue).method.message_count
    again = client.channel.queue_delete(queue).method.message_count
    return [used, purged, deleted, again]


def quorum(client: Client) -> Any:
    graves = client.queue("graves")
    arguments = {
        "x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": graves,
    }  # fmt: skip
    queue = client.queue("q", arguments=arguments)
    client.channel.confirm_delivery()
    client.send("", queue, "poison")
    counts: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(counts) < 3 and time.monotonic() < deadline:
        method, properties, _ = client.channel.basic_get(queue)
        if method is not None:
            counts.append((properties.headers or {}).get("x-delivery-count", 0))
            client.channel.basic_nack(method.delivery_tag, requeue=True)
    headers = client.one(graves)[1].headers
    return [counts, client.plain(headers["x-first-death-reason"])]


def replied(client: Client) -> Any:
    queue = client.queue("q")
    got: list[bytes] = []
    pseudo = "amq.rabbitmq.reply-to"
    client.channel.basic_consume(pseudo, lambda c, m, p, b: got.append(b), auto_ack=True)
    client.send("", queue, "question", reply_to=pseudo)
    server = client.new_channel()
    deadline = time.monotonic() + WAIT_S
    while (found := server.basic_get(queue, auto_ack=True))[0] is None:
        assert time.monotonic() < deadline
    server.basic_publish("", found[1].reply_to, b"answer")
    while not got and time.monotonic() < deadline:
        client.channel.connection.process_data_events(0.05)
    return [got, found[1].reply_to.startswith(f"{pseudo}.")]


def refused(client: Client) -> Any:
    queue, exchange = client.queue("q"), client.exchange("e", "direct")
    client.exchange("internal", "direct", internal=True)
    client.new_channel().queue_declare(client.name("own"), exclusive=True)
    client.new_channel().basic_consume(queue, lambda *_: None, exclusive=True)
    acts: dict[str, Callable[[BlockingChannel], Any]] = {
        "no queue": lambda c: c.basic_get("none"),
        "no queue to consume": lambda c: c.basic_consume("none", lambda *_: None),
        "passive queue": lambda c: c.queue_declare("none", passive=True),
        "passive exchange": lambda c: c.exchange_declare("none", passive=True),
        "no queue to purge": lambda c: c.queue_purge("none"),
        "no exchange to bind": lambda c: c.queue_bind(queue, "none"),
        "no queue to bind": lambda c: c.queue_bind("none", exchange),
        "not durable": lambda c: c.queue_declare(queue),
        "other arguments": lambda c: c.queue_declare(
            queue, durable=True, arguments={"x-max-length": 1}
        ),
        "other type": lambda c: c.exchange_declare(exchange, "topic", durable=True),
        "reserved queue": lambda c: c.queue_declare("amq.mine"),
        "reserved exchange": lambda c: c.exchange_declare("amq.mine", "direct"),
        "default exchange": lambda c: c.queue_bind(queue, ""),
        "predeclared": lambda c: c.exchange_delete("amq.direct"),
        "bad ttl": lambda c: c.queue_declare(client.name("x"), arguments={"x-message-ttl": "1"}),
        "bad length": lambda c: c.queue_declare(client.name("x"), arguments={"x-max-length": -1}),
        "bad overflow": lambda c: c.queue_declare(
            client.name("x"), arguments={"x-overflow": "explode"}
        ),
        "bad expires": lambda c: c.queue_declare(client.name("x"), arguments={"x-expires": 0}),
        "key without exchange": lambda c: c.queue_declare(
            client.name("x"), arguments={"x-dead-letter-routing-key": "k"}
        ),
        "unknown tag": lambda c: c.basic_ack(99),
        "bad expiration": lambda c: c.basic_publish(
            "", queue, b"", Properties(expiration="soon")
        ),
        "unknown exchange": lambda c: c.basic_publish("none", "k", b""),
        "internal exchange": lambda c: c.basic_publish(client.name("internal"), "k", b""),
        "another user": lambda c: c.basic_publish("", queue, b"", Properties(user_id="nobody")),
        "exclusive queue": lambda c: c.basic_get(client.name("own")),
        "exclusive consumer": lambda c: c.basic_consume(queue, lambda *_: None),
        "exclusive after others": lambda c: c.basic_consume(queue, lambda *_: None, exclusive=True),
        "commit without select": lambda c: c.tx_commit(),
        "prefetch size": lambda c: c.basic_qos(prefetch_size=1),
        "recover in vain": lambda c: c.basic_recover(requeue=False),
        "delete what is not there": lambda c: (c.queue_delete("none"), c.exchange_delete("none")),
        "unbind what is not there": lambda c: c.queue_unbind(queue, exchange, "none"),
        "same again": lambda c: c.queue_declare(queue, durable=True),
        "used exchange": lambda c: (
            c.queue_bind(queue, exchange, "k"), c.exchange_delete(exchange, if_unused=True),
        ),
    }  # fmt: skip
    return [(text, client.refusal(act)) for text, act in acts.items()]


SCENARIOS: list[Callable[[Client], Any]] = [
    requeued, acknowledged_together, routed, copied, returned, dead, dead_again, in_circles,
    prioritised, limited, expired, transacted, prefetched, shared_in_order, cancelled,
    gone_by_itself, counted, quorum, replied, refused, streamed, stream_refused,
]  # fmt: skip


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """Return a running RabbitMQ."""
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.mark.xdist_group("rabbitmq")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_node_does_what_rabbitmq_does(
    node: RunningNode, rabbitmq: RabbitMQ, scenario: Callable[[Client], Any]
) -> None:
    """E4: RabbitMQ is the oracle."""
    outcomes = []
    for port in (rabbitmq.port, node.amqp_address[1]):
        client = Client(port)
        try:
            outcomes.append(scenario(client))
        finally:
            client.close()
    expected, found = outcomes
    assert found == expected
