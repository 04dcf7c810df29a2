"""The users of the cluster: kept in memory, changed in the store first."""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from chordmq.broker.security.accounts import Credential, TokenRow, UserRow
from chordmq.broker.security.credentials import HASHES, derive
from chordmq.broker.security.principal import Login
from chordmq.clock import Clock
from chordmq.cluster.image import Image
from chordmq.cluster.metastore.store import Delete, Event, Put, present
from chordmq.cluster.state import SECRET, TOKENS, USERS, Secret, decode, encode, name_of, named_key
from chordmq.errors import InvalidRequest, UnknownToken, UnknownUser, UserExists

NAME_LENGTH_MAX = 255
PASSWORD_LENGTH_MAX = 1024
TOKENS_PER_USER_MAX = 100
TOKEN_PREFIX = "cmq_"  # noqa: S105 (what tokens begin with, so that they are recognised)
TOKEN_SIZE = 32

_FORBIDDEN_IN_NAMES = re.compile(r"[\x00-\x1f\x7f]")


class Users:
    """Who may log in with a password or a token that the cluster keeps."""

    def __init__(self, image: Image, clock: Clock) -> None:
        self._image = image
        self._clock = clock
        self._users: dict[str, UserRow] = {}
        self._tokens: dict[bytes, TokenRow] = {}
        self._by_key: dict[str, TokenRow] = {}
        self._changing = asyncio.Lock()
        self.watchers: list[Callable[[str], None]] = []
        """Called with the name of a user that has changed or gone, here or on another node."""
        image.listen(USERS, self._hear_users)
        image.listen(TOKENS, self._hear_tokens)
        self._hear_users(image.told(USERS))
        self._hear_tokens(image.told(TOKENS))

    @property
    def secret(self) -> bytes:
        """Return the secret that stays the same over restarts, and is the same on all nodes."""
        entry = self._image.get(SECRET)
        assert entry is not None
        return decode(entry, Secret).value

    def __iter__(self) -> Iterator[UserRow]:
        return iter(sorted(self._users.values(), key=lambda user: user.name))

    def find(self, name: str) -> UserRow | None:
        """Return the user, or None."""
        return self._users.get(name)

    def get(self, name: str) -> UserRow:
        """Return the user, or raise UnknownUser."""
        user = self._users.get(name)
        if user is None:
            raise UnknownUser(f"no user is called {name!r}")
        return user

    async def add(self, name: str, password: str | None, *, is_admin: bool = False) -> None:
        """Add a user; without a password only tokens let it in."""
        check_name(name)
        credentials = await _credentials(password) if password is not None else {}
        async with self._changing:
            if name in self._users:
                raise UserExists(f"a user called {name!r} is there already")
            await self._save(UserRow(name, is_admin, credentials))

    async def set_password(self, name: str, password: str) -> None:
        """Replace the password; connections that the old one has let in are ended."""
        self.get(name)
        credentials = await _credentials(password)
        async with self._changing:
            await self._save(replace(self.get(name), credentials=credentials))

    async def set_admin(self, name: str, is_admin: bool) -> None:
        """Make the user an administrator, or no longer one."""
        async with self._changing:
            await self._save(replace(self.get(name), is_admin=is_admin))

    async def set_credentials(self, name: str, changes: dict[str, Credential | None]) -> None:
        """Set or (None) remove credentials by mechanism; adds the user if it is new.

        A user left without credentials, tokens and rights is removed, as in Kafka.
        """
        check_name(name)
        async with self._changing:
            user = self._users.get(name, UserRow(name))
            credentials = {**user.credentials, **changes}
            kept = {key: one for key, one in credentials.items() if one is not None}
            if kept or user.is_admin or self.tokens(name):
                await self._save(replace(user, credentials=kept))
            elif name in self._users:
                await self._forget(name)

    async def remove(self, name: str) -> None:
        """Delete the user with its tokens."""
        async with self._changing:
            self.get(name)
            await self._forget(name)

    def tokens(self, name: str) -> list[TokenRow]:
        """Return the user's tokens, oldest first."""
        own = (token for token in self._tokens.values() if token.user == name)
        return sorted(own, key=lambda token: (token.created_ms, token.id))

    async def add_token(
        self, name: str, *, label: str = "", lifetime_ms: int | None = None
    ) -> tuple[TokenRow, str]:
        """Make a token; its text is returned here and never again."""
        text = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_SIZE)
        now = self._clock.now_ms()
        expires_ms = None if lifetime_ms is None else now + lifetime_ms
        token = TokenRow(_digest(text), secrets.token_hex(6), name, label, now, expires_ms)
        async with self._changing:
            self.get(name)
            if len(self.tokens(name)) >= TOKENS_PER_USER_MAX:
                raise InvalidRequest(f"{name!r} has {TOKENS_PER_USER_MAX} tokens; revoke one")
            await self._image.commit(
                [present(named_key(USERS, name))], [Put(_token_key(token.id), encode(token))]
            )
        return token, text

    async def remove_token(self, name: str, token_id: str) -> None:
        """Revoke a token; it lets nobody in from now on, and whom it has let in must go."""
        async with self._changing:
            for token in self.tokens(name):
                if token.id == token_id:
                    await self._image.commit([], [Delete(_token_key(token_id))])
                    return
        raise UnknownToken(f"{name!r} has no token {token_id!r}")

    def token(self, text: str) -> TokenRow | None:
        """Return the token with this text while it is valid."""
        token = self._tokens.get(_digest(text))
        if token is None or (
            token.expires_ms is not None and token.expires_ms <= self._clock.now_ms()
        ):
            return None
        return token

    def vouches_for(self, login: Login) -> bool:
        """Return whether what has proved a login is still there; what others vouch for is."""
        proof = login.proof
        if isinstance(proof, TokenRow):
            return proof.digest in self._tokens
        user = self._users.get(login.principal.name)
        return proof is None or (user is not None and proof in user.credentials.values())

    async def _save(self, user: UserRow) -> None:
        await self._image.commit([], [Put(named_key(USERS, user.name), encode(user))])

    async def _forget(self, name: str) -> None:
        tokens = [Delete(_token_key(token.id)) for token in self.tokens(name)]
        await self._image.commit([], [Delete(named_key(USERS, name)), *tokens])

    def _hear_users(self, events: list[Event]) -> None:
        for event in events:
            name = name_of(event.key)
            if event.entry is None:
                self._users.pop(name, None)
            else:
                self._users[name] = msgspec.json.decode(event.entry.value, type=UserRow)
            self._tell(name)

    def _hear_tokens(self, events: list[Event]) -> None:
        for event in events:
            old = self._by_key.pop(event.key, None)
            if event.entry is not None:
                token = msgspec.json.decode(event.entry.value, type=TokenRow)
                self._by_key[event.key] = self._tokens[token.digest] = token
            elif old is not None:
                del self._tokens[old.digest]
                self._tell(old.user)

    def _tell(self, name: str) -> None:
        for watcher in self.watchers:
            watcher(name)


def check_name(name: str) -> None:
    """Raise InvalidRequest for a name that no user can have."""
    if not 0 < len(name) <= NAME_LENGTH_MAX or _FORBIDDEN_IN_NAMES.search(name):
        raise InvalidRequest(
            f"a user name has 1 to {NAME_LENGTH_MAX} characters and no control characters"
        )


async def _credentials(password: str) -> dict[str, Credential]:
    if not 0 < len(password) <= PASSWORD_LENGTH_MAX:
        raise InvalidRequest(f"a password has 1 to {PASSWORD_LENGTH_MAX} characters")
    return {name: await asyncio.to_thread(derive, name, password) for name in HASHES}


def _token_key(token_id: str) -> str:
    return named_key(TOKENS, token_id)


def _digest(text: str) -> bytes:
    # A token is long and random: no salt is needed, and no slow hash.
    return hashlib.sha256(text.encode()).digest()
