"""X3: the web console in a real Chromium, against real nodes with real data."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as paho
import pytest
from confluent_kafka import Producer
from paho.mqtt.enums import CallbackAPIVersion
from playwright.sync_api import Page, expect

from chordmq.fronts.admin.console import FOLDER
from tests.cluster.running_cluster import RunningCluster
from tests.cluster.running_cluster import place as place_topic
from tests.interop.program import ROOT, installed, run
from tests.running_node import RunningNode
from tests.secured_node import secured_node
from tests.topology.running_registry import RunningRegistry

pytestmark = pytest.mark.interop

PASSWORDS = {"admin": "wise-and-old", "alice": "wonderland-9"}
WAIT_MS = 60_000
AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
CHECK = "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)"
PAGES = (
    "", "topics", "groups", "queues", "clients", "cluster", "topology", "devices", "pipeline",
    "security",
)  # fmt: skip
DESKTOP, PHONE = (1280, 800), (390, 780)


@pytest.fixture(scope="module")
def api(node: RunningNode) -> Iterator[httpx.Client]:
    """Give the API that the console uses too."""
    with httpx.Client(base_url=node.http, timeout=60) as client:
        yield client


@pytest.fixture
def topic(api: httpx.Client, name: str) -> str:
    """Give a topic with a few orders in two partitions."""
    assert api.post("/v1/topics", json={"name": name, "partitions": 2}).status_code == 201
    records = [
        {"key": f"c-{i % 3}", "value": {"order": i}, "encoding": "json", "partition": i % 2}
        for i in range(20)
    ]
    assert api.post(f"/v1/topics/{name}/records", json=records).status_code == 200
    return name


def open_at(page: Page, node: RunningNode, place: str = "") -> None:
    """Open a page of the console."""
    page.goto(f"{node.http}/#/{place}")


def messages(page: Page) -> Any:
    """Return the rows of the message browser."""
    return page.get_by_role("region", name="Messages").locator("tbody tr")


def test_the_logic_of_the_console() -> None:
    """X3: Vitest over what pages compute."""
    npm = installed("npm")
    run([npm, "--prefix", ROOT / "console", "test", "--silent"])


def test_a_visit_loads_less_than_300_kb() -> None:
    """X3: all pages together, as they travel."""
    parts = list((FOLDER / "assets").glob("*.gz"))
    assert parts
    assert sum(part.stat().st_size for part in parts) < 300_000


def test_a_newcomer_makes_a_topic_and_sees_messages_come(page: Page, own_node: RunningNode) -> None:
    """X3: from an empty broker to a live message from another client in four clicks."""
    open_at(page, own_node)
    page.get_by_label("1. A topic holds messages").fill("greetings")
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("2. Send a message").fill("hello from the browser")
    page.get_by_role("button", name="Send message").click()
    expect(page).to_have_url(f"{own_node.http}/#/topics/greetings")
    expect(messages(page).filter(has_text="hello from the browser")).to_have_count(1)
    expect(page.locator(".live")).to_contain_text("live,")
    producer = Producer({"bootstrap.servers": own_node.bootstrap})
    producer.produce("greetings", key="door-1", value="hello from librdkafka")
    producer.flush(60)
    expect(messages(page).filter(has_text="hello from librdkafka")).to_have_count(1)


def test_topics_are_made_changed_and_deleted(page: Page, node: RunningNode, name: str) -> None:
    """X3: with settings explained, refused values shown, and deletion confirmed by name."""
    open_at(page, node, "topics")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_label("Partitions").fill("3")
    dialog.get_by_label("Keep records for").select_option("one hour")
    dialog.get_by_role("button", name="Create topic").click()
    page.get_by_role("link", name="Partitions").click()
    expect(page.get_by_role("region", name="Partitions").locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Settings", exact=True).last.click()
    expect(page.get_by_role("row").filter(has_text="retention.ms").first).to_contain_text("1 h")
    page.get_by_role("button", name="Change cleanup.policy").click()
    page.get_by_label("Value").fill("burn")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("cleanup.policy")
    page.get_by_label("Value").fill("compact")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="cleanup.policy")).to_contain_text("compact")
    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.get_by_role("button", name="Delete topic")
    expect(confirm).to_be_disabled()
    page.get_by_label(f"Type {name} to confirm").fill(name)
    confirm.click()
    expect(page).to_have_url(f"{node.http}/#/topics")
    expect(page.get_by_role("link", name=name)).to_have_count(0)


def test_messages_are_found_shown_and_sent(page: Page, node: RunningNode, topic: str) -> None:
    """X3: filter, offset, key, forms of a value, commands to copy, and the publish form."""
    open_at(page, node, f"topics/{topic}")
    expect(messages(page)).to_have_count(20)
    page.get_by_label("Filter messages").fill("value.order>=15 partition=1")
    expect(messages(page)).to_have_count(3)
    page.get_by_label("Filter messages").fill("")
    page.get_by_label("Show").select_option("from an offset")
    page.get_by_label("Offset").fill("8")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(messages(page)).to_have_count(2)
    page.get_by_label("Show").select_option("of a key")
    page.get_by_label("Key is").fill("c-2")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(messages(page)).to_have_count(6)
    messages(page).first.click()
    detail = page.get_by_role("complementary")
    expect(detail.locator("pre").first).to_contain_text('"order":')
    detail.get_by_role("button", name="hex").click()
    expect(detail.locator("pre").first).to_contain_text("7b 22 6f 72 64 65 72")
    detail.get_by_role("tab", name="curl").click()
    command = detail.locator(".snippets pre")
    expect(command).to_contain_text(f"/v1/topics/{topic}/records?partition=")
    page.get_by_label("Show").select_option("live")
    page.get_by_label("Filter messages").fill("")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".live")).to_contain_text("paused")
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Value is").select_option("JSON (checked)")
    page.get_by_label("Value", exact=True).fill("{oops")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("no JSON")
    page.get_by_label("Value", exact=True).fill('{"sent": "here"}')
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("Stored in partition")).to_be_visible()
    expect(messages(page).filter(has_text='{"sent": "here"}')).to_have_count(1)


def test_dead_letters_go_back(page: Page, node: RunningNode, api: httpx.Client, topic: str) -> None:
    """X3: with the reason they died of, and without it when they return."""
    letters = f"{topic}.dlq"
    api.post("/v1/topics", json={"name": letters, "partitions": 1}).raise_for_status()
    marks = {"chordmq.origin.topic": topic, "chordmq.dead.reason": "no price", "kept": "yes"}
    letter = {"key": "k", "value": "poison", "headers": marks}
    api.post(f"/v1/topics/{letters}/records", json=letter).raise_for_status()
    open_at(page, node, f"topics/{letters}")
    expect(messages(page).first).to_contain_text("no price")
    page.get_by_role("button", name="Re-drive it").click()
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_text(f"1 sent again to {topic}")).to_be_visible()
    found = api.get(f"/v1/topics/{topic}/records?max_records=100").json()["records"]
    (back,) = [record for record in found if record["value"] == "poison"]
    assert back["headers"] == [{"name": "kept", "value": "yes"}]


def test_offsets_move_after_a_preview(
    page: Page, node: RunningNode, api: httpx.Client, topic: str
) -> None:
    """X3: lag is shown, nothing moves before the second click."""
    group = f"{topic}-readers"
    path = f"/v1/groups/{group}/offsets"
    rows = [{"topic": topic, "partition": index, "offset": 4} for index in (0, 1)]
    api.put(path, json={"offsets": rows}).raise_for_status()
    open_at(page, node, "groups")
    page.get_by_role("link", name=group).click()
    expect(page.get_by_role("heading", name="Lag 12")).to_be_visible()
    page.get_by_label("To", exact=True).select_option("the end")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="Preview").locator("tbody tr")).to_have_count(2)
    assert api.get(f"/v1/groups/{group}/lag").json()["total_lag"] == 12
    page.get_by_role("button", name="Move the offsets").click()
    expect(page.get_by_text("Moved.")).to_be_visible()
    expect(page.get_by_role("heading", name="Lag 0")).to_be_visible()
    assert api.get(f"/v1/groups/{group}/lag").json()["total_lag"] == 0


def obey(client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
    """Do what a command says, as a device does."""
    told = json.loads(message.payload)["payload"]
    answer = {"id": told["id"], "result": {"set to": told["parameters"]}}
    client.publish(message.topic.replace("/request", "/response"), json.dumps(answer), qos=1)


@pytest.fixture
def fleet(node: RunningNode, api: httpx.Client, name: str) -> Iterator[paho.Client]:
    """Give a device that is connected over MQTT, with what the pipeline would say of it."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name)
    client.connect(*node.mqtt_address)
    client.loop_start()
    client.on_message = obey
    client.subscribe(f"iotsphere/devices/{name}/commands/+/request", qos=1)
    where = f"iotsphere/devices/{name}/telemetry/temperature"
    for degrees in (20.5, 21.0, 21.5):
        client.publish(where, str(degrees), qos=1).wait_for_publish(60)
    api.post("/v1/topics", json={"name": "iotsphere.system"})
    why = "temperature is above 60.0"
    alert = {"kind": "anomaly", "deviceId": name, "value": 99.5, "unit": "C", "reason": why}
    record = {"value": alert, "encoding": "json", "headers": {"chordmq.topic": "x/y/alerts"}}
    api.post("/v1/topics/iotsphere.system/records", json=record).raise_for_status()
    commit = {"topic": "iotsphere.system", "partition": 0, "offset": 0}
    path = "/v1/groups/pipeline-telemetry/offsets"
    api.put(path, json={"offsets": [commit]}).raise_for_status()
    yield client
    client.disconnect()
    client.loop_stop()


def test_devices_clients_and_the_pipeline_are_seen(
    page: Page, node: RunningNode, fleet: paho.Client, name: str
) -> None:
    """X3: who is connected, what they measure and do, and what the pipeline says about it."""
    open_at(page, node, "devices")
    row = page.get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text("temperature 21.5")
    fleet.publish(f"iotsphere/devices/{name}/telemetry/temperature", "22.25", qos=1)
    expect(row).to_contain_text("temperature 22.25")
    row.get_by_role("link", name=name).click()
    page.get_by_label("Wished for").fill('{"target": 23}')
    page.get_by_role("button", name="Wish for it").click()
    expect(page.get_by_label("delta")).to_contain_text('"target": 23')
    page.get_by_label("Command", exact=True).fill("heat")
    page.get_by_label("Parameters (JSON)").fill("23")
    page.get_by_role("button", name="Send command").click()
    command = page.get_by_role("region", name="Commands").locator("tbody tr")
    expect(command).to_contain_text("succeeded")
    expect(command).to_contain_text('{"set to":23}')
    open_at(page, node, "clients")
    expect(page.get_by_role("row").filter(has_text=name).first).to_contain_text("mqtt")
    open_at(page, node, "pipeline")
    expect(page.get_by_role("region", name="Queries")).to_contain_text("telemetry")
    alerts = page.get_by_role("region", name="Alerts")
    alert = alerts.locator("tr").filter(has_text=name)
    expect(alert).to_contain_text("anomaly")
    expect(alert).to_contain_text("temperature is above 60.0: 99.5 C")


@pytest.mark.parametrize("colours", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_page_can_be_used_by_everybody(
    page: Page, node: RunningNode, fleet: paho.Client, name: str, colours: str
) -> None:
    """X3: axe finds no barrier in light or dark; on a phone nothing is wider than the screen."""
    open_at(page, node)
    page.get_by_label("Colours").select_option(colours)
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    page.wait_for_function(f"{scheme} === '{colours}'")
    one_of_each = [f"topics/iotsphere.system{tab}" for tab in ("", "?tab=settings")]
    one_of_each += ["groups/pipeline-telemetry", f"devices/{name}", "no-such-page"]
    script = AXE.read_text()
    for place in (*PAGES, "settings", *one_of_each):
        open_at(page, node, place)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("main .waiting")).to_have_count(0)
        page.evaluate(script)
        found = page.evaluate(CHECK)
        barriers = [(place, one["id"], one["nodes"][0]["html"]) for one in found]
        assert barriers == []
        width, height = PHONE
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
        width, height = DESKTOP
        page.set_viewport_size({"width": width, "height": height})


def test_pages_are_reached_by_keys(page: Page, node: RunningNode) -> None:
    """X3: g and a letter lead to a page."""
    open_at(page, node)
    expect(page.locator("main h1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("img", name="The ring with 1 nodes")).to_be_visible()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Give a node where clients log in; alice may read one topic."""
    with secured_node(tmp_path_factory.mktemp("secure"), PASSWORDS, "SCRAM-SHA-512,PLAIN") as node:
        with httpx.Client(
            base_url=node.http, auth=("admin", PASSWORDS["admin"]), timeout=60
        ) as admin:
            for topic in ("orders", "salaries"):
                admin.post("/v1/topics", json={"name": topic}).raise_for_status()
            admin.post("/v1/topics/orders/records", json={"value": "visible"}).raise_for_status()
            rule = {"kind": "topic", "name": "orders", "operation": "read"}
            acls = [rule | {"principal": "User:alice"}]
            admin.post("/v1/acls", json={"acls": acls}).raise_for_status()
        yield node


@pytest.fixture
def log_in(page: Page) -> Callable[[str, str], None]:
    """Give the act of logging in."""

    def act(user: str, password: str) -> None:
        page.get_by_label("Name").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in", exact=True).click()

    return act


def test_the_login_can_be_used_by_everybody(page: Page, secure: RunningNode) -> None:
    """X3: axe finds no barrier before the login either."""
    open_at(page, secure)
    expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()
    page.evaluate(AXE.read_text())
    assert [one["id"] for one in page.evaluate(CHECK)] == []


def test_users_see_what_they_may(
    page: Page, secure: RunningNode, log_in: Callable[[str, str], None]
) -> None:
    """X3: the login; a user with few rights is told what is not for them, and sees the rest."""
    open_at(page, secure, "topics")
    log_in("alice", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("does not know this login")
    log_in("alice", PASSWORDS["alice"])
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.get_by_role("link", name="salaries")).to_have_count(0)
    page.get_by_role("link", name="orders").click()
    expect(messages(page).filter(has_text="visible")).to_have_count(1)
    page.get_by_label("Value", exact=True).fill("not allowed")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    for place in ("cluster", "clients", "security", "security?tab=rules", "security?tab=audit"):
        open_at(page, secure, place)
        expect(page.get_by_role("heading", name="You may not see")).to_be_visible()
    open_at(page, secure)
    expect(page.get_by_text("not for you").first).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in to ChordMQ")).to_be_visible()


def test_administrators_learn_why_and_who_did_what(
    page: Page, secure: RunningNode, log_in: Callable[[str, str], None]
) -> None:
    """X3: a matrix with reasons, quotas, tokens that let in, and the audit trail."""
    open_at(page, secure, "security?tab=rules")
    log_in("admin", PASSWORDS["admin"])
    page.get_by_label("With").fill("topic:orders")
    page.get_by_role("button", name="User:alice read: allowed").click()
    expect(page.get_by_text("User:alice may read topic:orders")).to_be_visible()
    page.get_by_role("button", name="User:alice write: denied").click()
    expect(page.get_by_text("User:alice may not write topic:orders")).to_be_visible()
    page.get_by_role("link", name="Roles").click()
    page.get_by_label("Role", exact=True).fill("dispatcher")
    page.get_by_label("Name (* for all)").fill("orders")
    page.get_by_role("button", name="Save role").click()
    expect(page.get_by_text("read topic orders", exact=True)).to_be_visible()
    page.get_by_role("link", name="Quotas").click()
    page.get_by_label("User", exact=True).fill("alice")
    page.get_by_label("At most").fill("5000")
    page.get_by_role("button", name="Set quota").click()
    expect(page.get_by_role("row").filter(has_text="alice")).to_contain_text("5000")
    page.get_by_role("link", name="Users").click()
    expect(page.get_by_role("row").filter(has_text="admin")).to_contain_text("administrator")
    page.get_by_role("button", name="Tokens of alice").click()
    page.get_by_role("button", name="Make token").click()
    token = page.get_by_role("dialog").locator(".notice code").inner_text()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Audit trail").click()
    trail = page.get_by_role("region", name="Audit trail")
    expect(trail.locator("tr").filter(has_text="/v1/users/alice/tokens").first).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="With a token").click()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in", exact=True).click()
    open_at(page, secure, "topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()


def test_a_node_that_goes_away_is_said_and_waited_for(page: Page, own_node: RunningNode) -> None:
    """X3: what was there stays in sight, and the page goes on by itself when the node is back."""
    open_at(page, own_node)
    expect(page.get_by_text("ready", exact=True)).to_be_visible()
    own_node.kill9()
    expect(page.get_by_text("Shown as it was")).to_be_visible()
    own_node.start()
    expect(page.get_by_text("Shown as it was")).to_have_count(0)


@pytest.mark.slow
def test_a_tree_is_drawn_with_what_comes_down_to_a_node(
    page: Page, start_node: Callable[..., RunningNode], tmp_path: Path
) -> None:
    """X3, D11: parents, children, and the pipes of the node that is looked at."""
    registry = RunningRegistry(tmp_path / "registry")
    try:
        registry.start()
        common = {"pipes.registry": registry.url, "pipes.topics": "prices"}
        root, leaf = (
            start_node({**common, "pipes.node": name, "pipes.role": role})
            for name, role in (("head-office", "ROOT"), ("branch", "L2"))
        )
        httpx.post(f"{root.http}/v1/topics", json={"name": "prices"}, timeout=60).raise_for_status()
        open_at(page, leaf, "topology")
        tree = page.get_by_role("img", name="2 nodes below each other")
        expect(tree.get_by_text("head-office", exact=True)).to_be_visible()
        expect(tree.get_by_text("branch (this)")).to_be_visible()
        pipes = page.get_by_role("region", name="Pipes").locator("tbody tr")
        expect(pipes.first).to_contain_text("prices", timeout=WAIT_MS)
    finally:
        registry.kill9()


@pytest.mark.slow
def test_a_cluster_is_drawn_with_what_each_node_holds(page: Page, tmp_path: Path) -> None:
    """X3, D1: the ring with all nodes, what this one lacks, and an alarm for one that dies."""
    with RunningCluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        place_topic(cluster, "orders", [[1, 2], [2, 3], [3, 1]])
        open_at(page, node, "cluster")
        expect(page.get_by_role("img", name="The ring with 3 nodes")).to_be_visible()
        expect(page.get_by_text("every copy is in sync")).to_be_visible()
        open_at(page, node, "topics/orders?tab=partitions")
        partitions = page.get_by_role("region", name="Partitions").locator("tbody tr")
        expect(partitions).to_have_count(3)
        for number, copies in enumerate(("1, 2", "2, 3", "3, 1")):
            expect(partitions.nth(number)).to_contain_text(copies)
        cluster.nodes[3].kill9()
        open_at(page, node)
        expect(page.get_by_role("alert")).to_contain_text("Node 3 is gone.")
