"""SaslHandshake, SaslAuthenticate: refused, since this listener checks no credentials."""

from chordmq.codecs.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from chordmq.codecs.kafka.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from chordmq.errors import UnsupportedSaslMechanism
from chordmq.fronts.kafka.call import Call
from chordmq.fronts.kafka.errors import CODES, ILLEGAL_SASL_STATE


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Offer no mechanism: what is not checked is not offered."""
    return SaslHandshakeResponse(error_code=CODES[UnsupportedSaslMechanism])


def sasl_authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse credentials that no handshake announced."""
    return SaslAuthenticateResponse(
        error_code=ILLEGAL_SASL_STATE,
        error_message="This listener has no SASL mechanism; connect without SASL.",
    )
