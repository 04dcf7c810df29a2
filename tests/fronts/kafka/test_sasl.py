"""SaslHandshake and SaslAuthenticate, refused."""

import pytest

from chordmq.codecs.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from chordmq.codecs.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.fronts.kafka.conftest import Ask

UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE = 33, 34


@pytest.mark.parametrize("version", SaslHandshakeRequest.versions)
async def test_no_sasl_mechanism_is_offered(ask: Ask, version: int) -> None:
    """C1: SaslHandshake offers only what is checked, which is nothing yet."""
    answer = await ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (UNSUPPORTED_SASL_MECHANISM, [])


@pytest.mark.parametrize("version", SaslAuthenticateRequest.versions)
async def test_credentials_are_never_waved_through(ask: Ask, version: int) -> None:
    """C1: SaslAuthenticate without a handshake is refused."""
    answer = await ask(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"), version)
    assert answer.error_code == ILLEGAL_SASL_STATE
    assert answer.error_message
