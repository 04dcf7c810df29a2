"""Decides whether a client is who it says: passwords, tokens, and the SASL mechanisms on top."""

import asyncio
import hmac
import math
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from chordmq.broker.security import credentials
from chordmq.broker.security.accounts import Credential
from chordmq.broker.security.auth_settings import OAUTHBEARER, AuthSettings
from chordmq.broker.security.failed_logins import FailedLogins
from chordmq.broker.security.logins import Logins
from chordmq.broker.security.principal import ANONYMOUS, Login, Principal
from chordmq.broker.security.users import TOKEN_PREFIX, Users
from chordmq.clock import Clock
from chordmq.dataclass import dataclass
from chordmq.errors import AuthenticationFailed, UnsupportedSaslMechanism
from chordmq.logs import get_logger

if TYPE_CHECKING:
    from chordmq.broker.extensions import AuthenticationBackend
    from chordmq.broker.security.ldap import Directory
    from chordmq.broker.security.oauth import TokenChecker
    from chordmq.broker.security.sasl import Exchange
    from chordmq.client.breaker import Breaker

log = get_logger(__name__)

REMEMBERED_MAX = 10_000
REFUSAL = "Authentication failed: invalid credentials"
"""What every refused client is told, whichever part was wrong."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One login that succeeded or failed, for those who keep watch."""

    mechanism: str
    user: str
    address: str
    reason: str = ""
    """Why it failed, for the operator and never for the client; empty when it succeeded."""


class Authenticator:
    """The one judge of credentials, for every front."""

    def __init__(
        self,
        settings: AuthSettings,
        users: Users,
        clock: Clock,
        *,
        knows_certificates: bool = False,
    ) -> None:
        settings.check()
        self.settings = settings
        self.users = users
        self.clock = clock
        self.mechanisms = settings.offered
        self.logins = Logins(users)
        """What the connections of all fronts live by."""
        self.failed_logins = FailedLogins(clock)
        self.counts: Counter[tuple[str, str]] = Counter()
        """Logins by mechanism and outcome."""
        self.watchers: list[Callable[[Attempt], None]] = []
        self.backends: list[AuthenticationBackend] = []
        """Extensions that know users whom the node does not."""
        self.is_on = bool(self.mechanisms) or knows_certificates
        """Whether clients can prove who they are at all."""
        self._supers = settings.supers
        self._known: OrderedDict[bytes, Credential] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._tokens = _token_checker(settings, clock)
        self._directory = _directory(settings, clock)

    @property
    def is_required(self) -> bool:
        """Return whether clients have to log in."""
        return self.is_on and self.settings.required

    @property
    def breakers(self) -> "list[Breaker]":
        """Return what guards the calls to directories and token issuers."""
        return [one.breaker for one in (self._tokens, self._directory) if one is not None]

    def is_super(self, principal: Principal) -> bool:
        """Return whether the principal may do everything: all may while nobody can log in."""
        if principal is ANONYMOUS:
            return not self.is_on
        if principal.name in self._supers:
            return True
        user = self.users.find(principal.name)
        return user is not None and user.is_admin

    def begin(self, mechanism: str, address: str) -> "Exchange":
        """Return the node's side of a SASL exchange, or raise UnsupportedSaslMechanism."""
        from chordmq.broker.security import sasl

        if mechanism not in self.mechanisms:
            raise UnsupportedSaslMechanism(f"the mechanisms here are {', '.join(self.mechanisms)}")
        return sasl.EXCHANGES[mechanism](self, mechanism, address)

    async def check_password(
        self, name: str, password: str, address: str, mechanism: str = "PLAIN"
    ) -> Login:
        """Return the login if the password is the user's, else raise AuthenticationFailed."""
        self.refuse_guessing(mechanism, name, address)
        try:
            login = await self._login(name, password)
        except AuthenticationFailed as error:
            raise self.failed(mechanism, name, address, str(error)) from None
        self.succeeded(mechanism, login.principal.name, address)
        return login

    async def check_token(self, text: str, address: str, mechanism: str = OAUTHBEARER) -> Login:
        """Return the login that a token of ours, or of the issuer, stands for."""
        self.refuse_guessing(mechanism, "", address)
        try:
            if text.startswith(TOKEN_PREFIX):
                login = self._own_token(text)
            elif self._tokens is not None:
                login = await self._tokens.check(text)
            else:
                raise AuthenticationFailed("no such token, and no issuer is trusted")
        except AuthenticationFailed as error:
            raise self.failed(mechanism, "", address, str(error)) from None
        self.succeeded(mechanism, login.principal.name, address)
        return login

    def credential(self, mechanism: str, name: str) -> Credential:
        """Return the user's SCRAM credential; an unknown user gets one that fits nothing."""
        user = self.users.find(name)
        found = user.credentials.get(mechanism) if user else None
        return found or credentials.imagined(mechanism, name, self.users.secret)

    def refuse_guessing(self, mechanism: str, name: str, address: str) -> None:
        """Raise AuthenticationFailed without a look while too many tries have failed."""
        wait_s = self.failed_logins.wait_s(name, address)
        if wait_s > 0:
            self.counts[mechanism, "delayed"] += 1
            raise AuthenticationFailed(
                f"Authentication failed: too many failures; try again in {math.ceil(wait_s)} s"
            )

    def failed(self, mechanism: str, name: str, address: str, reason: str) -> AuthenticationFailed:
        """Count a failure and return what the client is told."""
        self.failed_logins.failed(name, address)
        self.counts[mechanism, "failed"] += 1
        log.warning("login failed", mechanism=mechanism, user=name, address=address, reason=reason)
        self._tell(Attempt(mechanism, name, address, reason))
        return AuthenticationFailed(REFUSAL)

    def succeeded(self, mechanism: str, name: str, address: str) -> None:
        """Count a login."""
        self.failed_logins.succeeded(name, address)
        self.counts[mechanism, "succeeded"] += 1
        self._tell(Attempt(mechanism, name, address))

    def close(self) -> None:
        """End the threads that talk to a directory."""
        if self._directory is not None:
            self._directory.close()

    def _tell(self, attempt: Attempt) -> None:
        for watcher in self.watchers:
            watcher(attempt)

    async def _login(self, name: str, password: str) -> Login:
        if not name or not password:
            raise AuthenticationFailed("the name or the password is empty")
        if password.startswith(TOKEN_PREFIX):
            login = self._own_token(password)
            if login.principal.name != name:
                raise AuthenticationFailed("the token is another user's")
            return login
        if self.users.find(name) is None:
            for backend in self.backends:
                principal = await backend.check(name, password)
                if principal is not None:
                    return Login(principal)
            if self._directory is not None:
                return Login(await self._directory.check(name, password))
        return Login(Principal(name), proof=await self._check_own_password(name, password))

    async def _check_own_password(self, name: str, password: str) -> Credential:
        user = self.users.find(name)
        mechanism = next(iter(user.credentials if user else ()), credentials.FIRST)
        credential = self.credential(mechanism, name)
        # Deriving takes milliseconds on purpose; a password that was right lately, for the very
        # same credential, is recognised by a keyed hash of it.
        known = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if self._known.get(known) == credential:
            return credential
        if not await asyncio.to_thread(credentials.fits, mechanism, password, credential):
            raise AuthenticationFailed("wrong password" if user else "unknown user")
        self._known[known] = credential
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return credential

    def _own_token(self, text: str) -> Login:
        token = self.users.token(text)
        if token is None:
            raise AuthenticationFailed("the token is unknown, revoked or expired")
        return Login(Principal(token.user), token.expires_ms, token)


def _token_checker(settings: AuthSettings, clock: Clock) -> "TokenChecker | None":
    if OAUTHBEARER not in settings.offered:
        return None
    from chordmq.broker.security.oauth import TokenChecker

    return TokenChecker(settings.oauth, clock)


def _directory(settings: AuthSettings, clock: Clock) -> "Directory | None":
    if not settings.ldap.url:
        return None
    from chordmq.broker.security.ldap import Directory

    return Directory(settings.ldap, clock)
