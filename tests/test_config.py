"""The configuration: where values come from, who wins, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordmq.config import ENVIRONMENT_ALIASES, Config, fill, known, load, variable
from chordmq.errors import InvalidSetting

FILE = """
data_dir: /var/lib/chordmq
kafka:
  port: ${KAFKA_PORT:19092}
  advertised_host: broker-${RACK:1}.example
http: {port: 18080}
broker:
  num.partitions: 3
  auto.create.topics.enable: false
  log.cleanup.policy: [compact, delete]
logs:
  level: warning
  levels: {chordmq.config: debug}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chordmq.yaml"
    path.write_text(FILE)
    return path


def test_without_any_source_the_defaults_apply() -> None:
    """X2: nothing has to be configured."""
    assert load(environment={}) == Config()


def test_a_file_sets_every_part(file: Path) -> None:
    """D14: one YAML file with placeholders and their defaults."""
    config = load(file, environment={})
    assert config.data_dir == Path("/var/lib/chordmq")
    assert config.kafka.port == 19092
    assert config.kafka.advertised_host == "broker-1.example"
    assert config.http.port == 18080
    assert config.broker.num_partitions == 3
    assert config.broker.auto_create_topics_enable is False
    assert config.broker.topic.cleanup_policy == ("compact", "delete")
    assert config.logs.level == "warning"
    assert config.logs.levels == {"chordmq.config": "debug"}


def test_placeholders_take_the_environment_before_their_default(file: Path) -> None:
    """D14: `${NAME:default}` stands for a variable."""
    config = load(file, environment={"KAFKA_PORT": "29092", "RACK": ""})
    assert config.kafka.port == 29092
    assert config.kafka.advertised_host == "broker-.example"


def test_the_environment_overrides_the_file_and_the_command_line_both(file: Path) -> None:
    """D14: command line, environment, file, default: the first that speaks wins."""
    environment = {"CHORDMQ_KAFKA_PORT": "1", "CHORDMQ_HTTP_PORT": "2"}
    environment |= {"CHORDMQ_BROKER_NUM_PARTITIONS": "7"}
    config = load(file, environment=environment, assignments=["kafka.port=3"])
    assert (config.kafka.port, config.http.port, config.broker.num_partitions) == (3, 2, 7)
    assert config.kafka.advertised_host == "broker-1.example"
    assert config.kafka.connections_max == Config().kafka.connections_max


def test_the_short_name_of_the_http_port_works_and_the_long_one_wins() -> None:
    assert load(environment={"HTTP_PORT": "81"}).http.port == 81
    assert load(environment={"HTTP_PORT": "81", "CHORDMQ_HTTP_PORT": "82"}).http.port == 82


def test_no_two_settings_share_a_variable() -> None:
    assert len({variable(name) for name in known()}) == len(known())


def test_variables_that_are_no_setting_are_let_be() -> None:
    environment = {"CHORDMQ_SERVICE_HOST": "10.0.0.1", "CHORDMQ_PORT": "tcp://10.0.0.1:9092"}
    assert load(environment=environment) == Config()


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("kafka.prot=1", "no setting is called 'kafka.prot'; did you mean 'kafka.port'?"),
        ("broker.num.partition=1", "did you mean 'broker.num.partitions'?"),
        ("kafka=1", "no setting is called 'kafka'"),
        ("kafka.port", "not of the form name=value"),
        ("kafka.port=many", "kafka.port: 'many' is not a whole number"),
        ("kafka.port=65536", "kafka.port: 65536 is out of range"),
        ("kafka.connections_max=-1", "out of range"),
        ("shutdown_timeout_s=nan", "out of range"),
        ("insecure=perhaps", "insecure: 'perhaps' is not true or false"),
        ("logs.format=xml", "logs.format: 'xml' is none of auto, console, json"),
        ("logs.level=loud", "no log level is called 'loud'"),
        ("logs.levels.chordmq.nod=info", "did you mean 'chordmq.node'?"),
        ("broker.num.partitions=0", "num.partitions"),
        ("broker.log.flush=never", "flush"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(assignment: str, complaint: str) -> None:
    """D14: an unknown or invalid setting stops the node with its name."""
    with pytest.raises(InvalidSetting) as refused:
        load(environment={}, assignments=[assignment])
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kafka: [", "is not YAML"),
        ("- kafka", "must hold settings by name"),
        ("kafka: {port: '${NOWHERE}'}", "kafka.port: the environment has no NOWHERE"),
        ("kafka: {port: 1, 5: 6}", "no setting is called 'kafka.5'"),
        ("kafka: 9092", "no setting is called 'kafka'"),
        ("kafka: {port: 1}\nkafka: {port: 2}", "kafka.port stands there twice"),
        ("kafka: &loop {port: *loop}", "is not YAML"),
        ("kafka: {? [a, b] : 1}", "no setting is called"),
    ],
)
def test_a_broken_file_is_refused_with_the_reason(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        load(file, environment={})
    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"nowhere.yaml: No such file"):
        load(tmp_path / "nowhere.yaml", environment={})


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("# nothing yet\nkafka:\n")
    assert load(file, environment={}) == Config()


def test_a_doubled_dollar_keeps_the_braces() -> None:
    assert fill("x", "$${NAME} ${NAME}", {"NAME": "v"}) == "${NAME} v"


@given(st.text())
def test_any_text_fills_or_is_refused(text: str) -> None:
    try:
        filled = fill("x", text, {})
    except InvalidSetting:
        assert "${" in text
    else:
        assert filled == text or "${" in text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example"])
@pytest.mark.parametrize("part", ["kafka", "http", "framed"])
def test_listening_beyond_the_machine_needs_a_word(part: str, host: str) -> None:
    """A node without authentication is closed to the network unless it is told otherwise."""
    assignments = [f"{part}.host={host}"]
    with pytest.raises(InvalidSetting, match=f"{part}.host .* --insecure"):
        load(environment={}, assignments=assignments)
    load(environment={}, assignments=[*assignments, "insecure=true"])


@pytest.mark.parametrize("part", ["kafka", "http"])
def test_a_node_whose_clients_log_in_may_listen_anywhere(part: str) -> None:
    """C10: any mechanism that is demanded of everybody, or a certificate of each client."""
    host = f"{part}.host=0.0.0.0"
    load(environment={}, assignments=[host, "auth.mechanisms=SCRAM-SHA-512"])
    files = [f"{part}.tls.certificate=x", f"{part}.tls.client_ca=y"]
    load(environment={}, assignments=[host, *files, f"{part}.tls.client_auth=required"])
    for lax in (
        ["auth.mechanisms=SCRAM-SHA-512", "auth.required=false"],
        [*files, f"{part}.tls.client_auth=optional", "auth.required=false"],
        files,
    ):
        with pytest.raises(InvalidSetting, match="--insecure"):
            load(environment={}, assignments=[host, *lax])


def test_settings_of_locks_are_checked_at_the_start() -> None:
    for wrong in (
        "auth.mechanisms=KERBEROS",
        "auth.mechanisms=OAUTHBEARER",
        "kafka.tls.key=x",
        "kafka.tls.client_auth=perhaps",
        "http.tls.min_version=1.1",
    ):
        with pytest.raises(InvalidSetting):
            load(environment={}, assignments=[wrong])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_listening_on_the_machine_itself_is_fine(host: str) -> None:
    assert load(environment={}, assignments=[f"kafka.host={host}"]).kafka.host == host


def test_the_example_environment_holds_the_defaults() -> None:
    lines = (Path(__file__).parent.parent / ".env.example").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert environment.keys() <= {variable(name) for name in known()} | ENVIRONMENT_ALIASES.keys()
    assert load(environment=environment) == Config(data_dir=Path("./data"))


def test_links_beyond_this_machine_need_certificates() -> None:
    with pytest.raises(InvalidSetting, match=r"peer\.host '0\.0\.0\.0' can be reached"):
        load(environment={}, assignments=["peer.host=0.0.0.0"])
    assert load(environment={}, assignments=["peer.host=0.0.0.0", "insecure=true"]).insecure
    tls = ["peer.tls.certificate=c.pem", "peer.tls.client_ca=a.pem"]
    with pytest.raises(InvalidSetting, match=r"peer\.tls\.client_auth must be required"):
        load(environment={}, assignments=["peer.host=0.0.0.0", *tls])
    secured = load(
        environment={},
        assignments=["peer.host=0.0.0.0", *tls, "peer.tls.client_auth=required"],
    )
    assert secured.peer.port == 9094


def test_every_setting_of_the_node_is_documented() -> None:
    docs = Path(__file__).parent.parent / "docs"
    page = "".join(file.read_text() for file in docs.glob("*.md"))
    own = [name for name in known() if not name.startswith("broker.")]
    assert [name for name in own if f"`{name}`" not in page] == []
