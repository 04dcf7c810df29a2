"""Asks an LDAP directory (Active Directory, OpenLDAP) whether a password is right."""

import asyncio
import hmac
import random
import secrets
import ssl
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ldap3 import NONE, SIMPLE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

from chordmq.broker.security.auth_settings import LdapSettings
from chordmq.broker.security.principal import Principal
from chordmq.client.breaker import Breaker
from chordmq.clock import Clock
from chordmq.errors import AuthenticationFailed, InvalidSetting
from chordmq.logs import get_logger

REMEMBERED_MAX = 10_000
WAITING_MAX = 200
"""Logins that may wait for the directory; more than that are refused at once."""
GROUPS_MAX = 1_000

log = get_logger(__name__)


class Directory:
    """Checks passwords in threads of its own; what was right lately is not asked again.

    ldap3 blocks, so that a slow directory costs a few threads and never the event loop.
    """

    def __init__(self, settings: LdapSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._server = _server(settings)
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="chordmq-ldap")
        self._waiting = 0
        chance = random.Random()  # noqa: S311 (jitter, not a secret)
        self.breaker = Breaker("ldap", chance)
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    async def check(self, name: str, password: str) -> Principal:
        """Return the user with its groups, or raise AuthenticationFailed."""
        if not name or not password:
            # A directory takes a bind without a password as one without a name, and grants it.
            raise AuthenticationFailed("the name or the password is empty")
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        known = self._known.get(digest)
        if known is not None and known[1] > self._clock.monotonic_s():
            return known[0]
        principal = await self._ask(name, password)
        self._known[digest] = principal, self._clock.monotonic_s() + self._settings.cache_s
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return principal

    def close(self) -> None:
        """End the threads; a question under way ends by its time-out."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, name: str, password: str) -> Principal:
        if self._waiting >= WAITING_MAX:
            raise AuthenticationFailed("too many logins wait for the directory")
        if not self.breaker.allows(self._clock.monotonic_s()):
            raise AuthenticationFailed("the directory failed too often and is left alone for now")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            principal = await loop.run_in_executor(self._threads, self._bind, name, password)
        except AuthenticationFailed:
            self.breaker.succeeded()  # it answered
            raise
        except (LDAPException, OSError) as error:
            self.breaker.failed(self._clock.monotonic_s())
            # The texts of the library may repeat what it was given.
            log.error("the directory does not answer", fault=type(error).__name__)
            raise AuthenticationFailed("the directory does not answer") from None
        else:
            self.breaker.succeeded()
            return principal
        finally:
            self._waiting -= 1

    def _bind(self, name: str, password: str) -> Principal:
        template = self._settings.bind_template
        user = template.replace("{name}", escape_rdn(name)) if template else self._find(name)
        with self._bound(user, password) as connection:
            if not connection.bound:
                raise AuthenticationFailed("the directory refuses name or password")
            return Principal(name, self._groups(connection, user))

    def _find(self, name: str) -> str:
        """Return the one entry of the user, as the service account sees it."""
        settings = self._settings
        with self._bound(settings.search_user, settings.search_password) as connection:
            if not connection.bound:
                raise AuthenticationFailed("the directory refuses the service account")
            wanted = settings.search_filter.replace("{name}", escape_filter_chars(name))
            connection.search(settings.search_base, wanted, size_limit=2)
            found = [entry.entry_dn for entry in connection.entries]
        if len(found) != 1:
            raise AuthenticationFailed("the directory knows no such user, or several")
        return str(found[0])

    def _groups(self, connection: Connection, user: str) -> frozenset[str]:
        settings = self._settings
        if not settings.group_base:
            return frozenset()
        wanted = settings.group_filter.replace("{dn}", escape_filter_chars(user))
        attribute = settings.group_attribute
        connection.search(
            settings.group_base, wanted, attributes=[attribute], size_limit=GROUPS_MAX
        )
        return frozenset(
            str(value) for entry in connection.entries for value in entry[attribute].values
        )

    @contextmanager
    def _bound(self, user: str, password: str) -> Iterator[Connection]:
        """Give a connection on which the bind was tried; `bound` says with what success."""
        connection = Connection(
            self._server,
            user=user,
            password=password,
            authentication=SIMPLE if password else None,
            receive_timeout=_whole(self._settings.timeout_s),
            read_only=True,
        )
        try:
            connection.open()
            if self._settings.start_tls:
                connection.start_tls()
            connection.bind()
            yield connection
        finally:
            connection.strategy.close()
            # What failed halfway is not closed by the library.
            if connection.socket is not None:
                connection.socket.close()


def _server(settings: LdapSettings) -> Server:
    tls = None
    if settings.start_tls or settings.url.startswith("ldaps://"):
        try:
            tls = Tls(
                validate=ssl.CERT_REQUIRED,
                version=ssl.PROTOCOL_TLS_CLIENT,
                ca_certs_file=settings.ca or None,
            )
        except LDAPException as error:
            raise InvalidSetting(f"auth.ldap.ca: {error}") from None
    return Server(settings.url, get_info=NONE, tls=tls, connect_timeout=_whole(settings.timeout_s))


def _whole(seconds: float) -> int:
    """Return a time-out as ldap3 wants it."""
    return max(1, round(seconds))
