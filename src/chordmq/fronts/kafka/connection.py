"""Drives one Kafka client: bytes to requests to handlers to answers, in the order they came."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from itertools import takewhile
from typing import cast

from chordmq.broker.security.principal import ANONYMOUS
from chordmq.codecs.frames import FrameReader, own
from chordmq.codecs.kafka.header import RequestHeader, read_request_header
from chordmq.errors import ChordMQError, DecodeError
from chordmq.fronts.kafka.answer import BARE, Answer, take_ready
from chordmq.fronts.kafka.call import Call, Client, KafkaFront
from chordmq.fronts.kafka.dispatch import APIS, PRODUCE, Api, Buffers, answer, refuse_version
from chordmq.fronts.kafka.gathering import SMALL
from chordmq.fronts.kafka.produce import SmallProduce
from chordmq.fronts.kafka.sasl import authenticate
from chordmq.fronts.kafka.sasl_session import SASL_AUTHENTICATE, SaslSession, State
from chordmq.fronts.kafka.throttle import Throttle
from chordmq.logs import get_logger

log = get_logger(__name__)

PIPELINE_MAX = 64
WRITE_BUFFER_HIGH = 64 * 1024
JOINED_MAX = 16 * 1024
"""Bytes of answers that are copied together, as one piece is sent with less ado than several."""


class KafkaConnection(asyncio.BufferedProtocol):
    """One client.

    As in Kafka, the next request is begun when the one before is answered. Produce is the
    exception: requests that wait for a flush do not hold up those behind them, so that one flush
    serves many.
    """

    def __init__(self, front: KafkaFront) -> None:
        self._front = front
        self._listener = front.listener
        self._answer = front.answer or answer
        self._reader = FrameReader(front.listener.settings.frame_size_max)
        # An empty deque takes 600 bytes and a set 200: with 10,000 clients, 15 MB.
        self._frames: list[memoryview] = []
        """Requests that have arrived and are not begun, the next one last."""
        self._answers: list[Answer] = []
        self._work_under_way: dict[asyncio.Future[Buffers | None], None] = {}
        self._transport: asyncio.Transport
        self._client = Client(host="")
        self._quotas = front.broker.permissions.quotas
        self._throttle = Throttle(self._quotas, self._client, front.listener.clock)
        self._mute: asyncio.TimerHandle | None = None
        self._held = 0
        self._blocker: Answer | None = None
        """What has to be answered, and sent if it is large, before the next request is begun."""
        self._is_unlike = False
        """Whether the next request to begin was found not to be like the last."""
        self._has_large = False
        """Whether a batch is gathered whose memory may be only lent, so that it cannot wait."""
        self._is_full = False
        self._is_reading = True
        self._is_draining = False
        self._is_closed = False
        self._is_stranger = False
        self._farewell = "the node is shutting down"
        self.last_active_s = front.listener.clock.monotonic_s()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or hang up."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._client.host = peer[0] if peer else ""
        if not self._listener.admit(self, self._client.host):
            self._is_closed = True
            self._transport.pause_reading()
            self._listener.turn_away(self._transport.abort)
            return
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=0)
        self._identify()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Work on the requests that the new bytes complete."""
        reader = self._reader
        self._front.bytes_in += nbytes
        if nbytes <= SMALL and self._client.like is not None and self._took_alike(nbytes):
            return
        was_partial = reader.is_partial
        try:
            frames = reader.lent(nbytes)
        except DecodeError as error:
            self.close(str(error))
            return
        if (frames or not was_partial) and not self._is_stranger:
            # More bytes of a request that has begun do not count: it could trickle in for ever.
            self.last_active_s = self._listener.clock.monotonic_s()
        if frames:
            frames.reverse()
            self._frames = frames + self._frames if self._frames else frames
            try:
                self._work()
            finally:
                if self._frames:
                    self._frames = list(map(own, self._frames))
        if self._held or self._is_full or reader.held:
            self._account()

    def eof_received(self) -> bool:
        """Close when the client does."""
        return False

    def pause_writing(self) -> None:
        """Begin no more requests while the client does not take its answers."""
        self._is_full = True
        self._account()

    def resume_writing(self) -> None:
        """Go on when the client has taken its answers."""
        self._is_full = False
        self._work()
        self._account()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop what is left of the client's work."""
        self._is_closed = True
        self._unmute()
        for work in list(self._work_under_way):
            work.cancel()
        if self._client.fetch_session is not None:
            self._client.fetch_session.close()
        if self._front.authenticator is not None:
            self._front.authenticator.logins.release(self)
        self._front.share_sessions.disconnected(self._client, self._front.broker.cursors)
        self._frames.clear()
        self._answers.clear()
        self._listener.memory.note(self, self._held, 0)
        self._held = 0
        self._listener.forget(self, self._client.host)

    # What the listener asks.

    @property
    def is_busy(self) -> bool:
        """Return whether a request or an answer is under way, or the client was told to wait."""
        if self._answers or self._frames or self._mute is not None:
            return True
        return self._transport.get_write_buffer_size() > 0

    @property
    def is_partial(self) -> bool:
        """Return whether a request, or the login before all requests, has begun and not ended."""
        return self._reader.is_partial or self._is_stranger

    @property
    def is_last(self) -> bool:
        """Return whether nothing has come with a request that is to be written together with it."""
        return not (self._frames or self._has_large)

    def drain(self) -> None:
        """Finish the requests that have arrived, take no more, then close."""
        self._is_draining = True
        self._read(False)
        self._unmute()
        self._close_if_drained()

    def close(self, reason: str) -> None:
        """End the connection and say why in the log."""
        if not self._is_closed:
            log.info("connection closed", address=self._client.host, reason=reason)
            self._is_closed = True
            self._transport.close()

    def resume(self) -> None:
        """Read again after the memory limit had stopped it."""
        if not self._is_closed:
            self._read(not self._frames)

    def fill(self, place: Answer, result: Buffers | asyncio.Future[Buffers | None]) -> None:
        """Put the answer of a request that was gathered into its place."""
        if isinstance(result, list):
            place.buffers = result
            place.is_ready = True
        elif not self._is_closed:
            self._await(APIS[PRODUCE], place, result)

    def proceed(self) -> None:
        """Send what was gathered and is answered, and begin what has arrived."""
        if self._frames or self._is_draining or self._quotas.limits:
            if not self._is_closed:
                self._work()
        elif self._answers and self._answers[0].is_ready:
            self._send()

    # The work itself.

    def _identify(self) -> None:
        """Learn who the client is from its certificate, or have it log in."""
        authenticator = self._front.authenticator
        if authenticator is None:
            return
        self._client.principal = self._listener.principal(self._transport)
        if self._client.principal is not ANONYMOUS:
            authenticator.succeeded("TLS", self._client.principal.name, self._client.host)
        is_open = self._client.principal is not ANONYMOUS or not authenticator.is_required
        if authenticator.is_on:
            self._client.sasl = SaslSession(is_open=is_open)
        if not is_open:
            self._is_stranger = True
            self._reader.frame_size_max = authenticator.settings.frame_size_max

    def _heed_login(self) -> None:
        """Let the client in, or hang up, as its login has ended."""
        sasl = self._client.sasl
        if sasl is None:
            return
        if sasl.state is State.OPEN:
            assert self._front.authenticator is not None
            if self._client.login is not None:
                self._front.authenticator.logins.hold(self, self._client.login, self._expel)
            self._reader.frame_size_max = self._listener.settings.frame_size_max
            self._is_stranger = False
        elif sasl.state is State.OVER:
            self._send()
            self.close("the login failed")

    def _expel(self, reason: str) -> None:
        """Answer what has arrived, then hang up on a client whose login is not good any more."""
        self._farewell = reason
        self.drain()

    def _work(self) -> None:
        """Begin as many requests as may be begun, and send what is ready."""
        frames, answers = self._frames, self._answers
        has_more = True
        while has_more:
            while frames and self._may_begin():
                self._begin(frames.pop())
            if self._has_large:
                self._has_large = False
                assert self._front.gathering is not None, "it was gathered there"
                self._front.gathering.write_now()
            if (answers and answers[0].is_ready) or self._quotas.limits:
                self._send()
            has_more = bool(frames) and self._may_begin()  # sending may have made room
        self._read(not frames)
        if self._held or frames:
            self._account()
        if self._is_draining:
            self._close_if_drained()

    def _may_begin(self) -> bool:
        is_hindered = self._blocker or self._is_full or self._is_closed or self._mute
        return not is_hindered and len(self._answers) < PIPELINE_MAX

    def _took_alike(self, nbytes: int) -> bool:
        """Serve the one small request that was read if it is like the last; most reads bring it."""
        if self._frames or not self._may_begin():
            return False
        frame = self._reader.lone(nbytes)
        if frame is None:
            return False
        now = self._listener.clock.monotonic_s()
        if not self._repeat(frame, now):
            self._is_unlike = True
            return False
        self.last_active_s = now
        if self._blocker is not None:
            self._send()
        if self._held:
            self._account()
        return True

    def _begin(self, frame: memoryview) -> None:
        clock = self._listener.clock
        started = clock.monotonic_s()
        header = None
        sasl, limits = self._client.sasl, self._quotas.limits
        is_unlike, self._is_unlike = self._is_unlike, False
        try:
            if not is_unlike and self._repeat(frame, started):
                return
            frame = own(frame)
            if sasl is not None and sasl.state is State.CHOSEN_BARE:
                self._authenticate_bare(frame)
                return
            header = read_request_header(frame)
            if sasl is not None and not sasl.answers(header.api_key, started):
                self._fail(header, f"API {header.api_key} needs a login")
                return
            self._dispatch(header, frame)
        except DecodeError as error:
            self._fail(header, f"malformed request: {error}")
        except Exception:
            log.exception(
                "request failed", api=header and header.api_key, address=self._client.host
            )
            self._fail(header, "a fault of this node; its log says more")
        if header is not None and header.api_key in APIS:
            usage = self._front.usage[header.api_key]
            usage.requests += 1
            worked_s = clock.monotonic_s() - started
            usage.busy_s += worked_s
            if limits:
                self._throttle.began(header, len(frame), worked_s)

    def _repeat(self, frame: memoryview, started: float) -> bool:
        """Serve a request if it is like the last one; return whether it is."""
        like, sasl = self._client.like, self._client.sasl
        if like is None or self._quotas.limits:
            return False
        api_key = like.header.api_key
        if sasl is not None and not sasl.answers(api_key, started):
            return False
        place = like.take(self, frame)
        if place is None:
            return False
        self._answers.append(place)
        if place.has_records:
            self._blocker = place
        elif len(frame) > SMALL:
            self._has_large = True
        usage = self._front.usage[api_key]
        usage.requests += 1
        usage.busy_s += self._listener.clock.monotonic_s() - started
        return True

    def _dispatch(self, header: RequestHeader, frame: memoryview) -> None:
        api = APIS.get(header.api_key)
        if api is None or header.api_version not in api.versions:
            place = Answer(header)
            place.buffers = refuse_version(header)
            place.is_ready = True
            self._answers.append(place)
            return
        call = Call(self._front, self._client, header.api_version, header.client_id or "")
        if self._front.gathering is not None and header.api_key != PRODUCE:
            self._front.gathering.write()  # the client may count on what it has sent before
        result = self._answer(api, call, frame, header)
        place = Answer(header)
        if isinstance(result, list):
            place.buffers = result
            place.is_ready = True
            if place.has_records:
                self._blocker = place
        elif isinstance(result, SmallProduce):
            result.expect(self, place)
        elif result is None:
            return  # acks=0: the client expects no answer
        else:
            self._await(api, place, result)
        self._answers.append(place)
        if place.is_ready and header.api_key == SASL_AUTHENTICATE:
            self._heed_login()

    def _authenticate_bare(self, frame: memoryview) -> None:
        """Take a SASL message that comes without a request around it (handshake version 0)."""
        place = Answer(BARE)
        self._await(APIS[SASL_AUTHENTICATE], place, self._authenticated_bare(bytes(frame)))
        self._answers.append(place)

    async def _authenticated_bare(self, message: bytes) -> Buffers:
        assert self._front.authenticator is not None
        reply, _ = await authenticate(self._front.authenticator, self._client, message)
        return [reply]

    def _await(
        self,
        api: Api,
        place: Answer,
        result: asyncio.Future[Buffers | None] | Coroutine[None, None, Buffers | None],
    ) -> None:
        if not isinstance(result, asyncio.Future):
            result = self._listener.tasks.create_task(self._guarded(result, place.header))
        self._work_under_way[result] = None
        if not api.is_pipelined:
            self._blocker = place
        result.add_done_callback(partial(self._finished, place))

    async def _guarded(
        self, work: Coroutine[None, None, Buffers | None], header: RequestHeader
    ) -> Buffers | None:
        """Keep one request's fault from ending the listener."""
        try:
            return await work
        except (ChordMQError, DecodeError) as error:
            self._fail(header, str(error))
        except Exception:
            log.exception("request failed", api=header.api_key, address=self._client.host)
            self._fail(header, "a fault of this node; its log says more")
        return None

    def _finished(self, place: Answer, work: asyncio.Future[Buffers | None]) -> None:
        self._work_under_way.pop(work, None)
        if self._is_closed or work.cancelled():
            return
        place.buffers = work.result()
        place.is_ready = True
        if place is self._blocker and not place.has_records:
            self._blocker = None
        if place.header.api_key == SASL_AUTHENTICATE:
            self._heed_login()
        gathering = self._front.gathering
        if gathering is not None and len(self._answers) > 1 and place.header.api_key == PRODUCE:
            gathering.let_proceed(self)  # one flush may have made many answers ready
        else:
            self._work()

    def _send(self) -> None:
        """Send the answers that are ready, up to the first that is not."""
        if self._quotas.limits:
            self._charge()
        out = take_ready(self._answers)
        if self._blocker is not None and self._blocker not in self._answers:
            self._blocker = None
        if self._is_closed or not out:
            return
        if len(out) == 1:
            self._front.bytes_out += len(out[0])
            self._transport.write(out[0])
        else:
            size = sum(map(len, out))
            self._front.bytes_out += size
            if size <= JOINED_MAX:
                self._transport.write(b"".join(out))
            else:
                self._transport.writelines(out)

    def _charge(self) -> None:
        """Count what is asked and answered; above a quota, tell the client to wait and make it."""
        ready = list(takewhile(lambda place: place.is_ready, self._answers))
        for place in ready:
            self._throttle.answered(place.header, sum(map(len, place.buffers or ())))
        wait_s = self._throttle.wait_s()
        loop = asyncio.get_running_loop()
        if self._mute is not None:
            # Answers that come while the client waits tell it so, too.
            wait_s = max(wait_s, self._mute.when() - loop.time())
            self._mute.cancel()
            self._mute = None
        if wait_s <= 0 or self._is_draining or self._is_closed:
            return
        for place in ready:
            place.tell_to_wait(wait_s)
        self._mute = loop.call_later(wait_s, self._unmute)

    def _unmute(self) -> None:
        """Go on with a client that has waited long enough."""
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None
            self._work()

    def _fail(self, header: RequestHeader | None, reason: str) -> None:
        if header is not None and header.api_key in APIS:
            self._front.usage[header.api_key].failures += 1
        if self._front.gathering is not None:
            self._front.gathering.write()
        self._send()  # what was answered before the fault still reaches the client
        self.close(reason)

    def _close_if_drained(self) -> None:
        last = self._answers[-1] if self._answers else None
        if last is not None and not last.is_ready and APIS[last.header.api_key].waits_for_others:
            # It may wait for long. What came behind it was not begun, and is dropped with it.
            self._answers.pop()
            self._frames.clear()
        if not (self._answers or self._frames):
            self.close(self._farewell)

    def _read(self, wanted: bool) -> None:
        """Pause or resume reading; a draining or throttled connection stays paused."""
        wanted = wanted and not (self._is_draining or self._mute)
        if wanted != self._is_reading and not self._is_closed:
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _account(self) -> None:
        """Report the memory this client holds; wait for others when there is none left."""
        if self._is_closed:
            return
        held = self._reader.held + sum(map(len, self._frames))
        if self._is_full:
            held += self._transport.get_write_buffer_size()
        if held == self._held == 0:
            return
        if not self._listener.memory.note(self, self._held, held):
            self._read(False)
        self._held = held
