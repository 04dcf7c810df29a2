"""Error codes have Kafka's names."""

from chordmq.client.codes import RETRIABLE, Code, name_of


def test_codes_have_kafkas_names() -> None:
    assert name_of(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert name_of(-1) == "UNKNOWN_SERVER_ERROR"
    assert name_of(100) == "UNKNOWN_TOPIC_ID"
    assert name_of(9999) == "ERROR_9999"


def test_the_names_agree_with_another_client() -> None:
    from confluent_kafka import KafkaError

    names = {code: KafkaError(code.value).name() for code in Code if code.value > 0}
    unlike = {code.value for code, name in names.items() if name != code.name and "?" not in name}
    assert unlike == OLDER_NAMES_IN_LIBRDKAFKA


OLDER_NAMES_IN_LIBRDKAFKA = {2, 3, 4, 6, 10, 11, 17}


def test_only_faults_that_can_pass_are_tried_again() -> None:
    assert Code.NOT_LEADER_OR_FOLLOWER in RETRIABLE
    assert Code.MESSAGE_TOO_LARGE not in RETRIABLE
    assert Code.INVALID_CONFIG not in RETRIABLE
