"""Links over TLS: nodes prove to each other who they are."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from chordmq.cluster.link import LinkDown
from chordmq.codecs.peer.frames import Form, Head, Kind, frame
from chordmq.errors import InvalidSetting
from chordmq.fronts.certificates import TlsSettings
from chordmq.fronts.peer.settings import PeerSettings
from tests.cluster.linked import Linked, introduce, linked, until_connected


def secured(folder: Path, authority: trustme.CA, name: str = "node") -> PeerSettings:
    """Return settings with a certificate of its own."""
    certificate = authority.issue_cert("127.0.0.1", common_name=name)
    file, ca = folder / f"{name}.pem", folder / f"{name}-ca.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(file))
    authority.cert_pem.write_to_path(str(ca))
    tls = TlsSettings(certificate=str(file), client_ca=str(ca), client_auth="required")
    return PeerSettings(port=0, tls=tls)


async def test_nodes_with_certificates_of_one_authority_talk(tmp_path: Path) -> None:
    async with linked(3, secured(tmp_path, trustme.CA())) as (one, two, three):
        await until_connected(one, three)
        await until_connected(two, three)
        assert bytes(await three.links.ask(1, Kind.PING, [b"x" * 300_000])) == b"x" * 300_000


@pytest.mark.parametrize("dialler", [0, 2])
async def test_a_node_with_a_foreign_certificate_is_kept_out(tmp_path: Path, dialler: int) -> None:
    async with linked(1, secured(tmp_path, trustme.CA())) as (one,):
        stranger = Linked(dialler, secured(tmp_path, trustme.CA(), "stranger"))
        await stranger.open()
        introduce([one, stranger])
        for asking, asked in [(stranger, one), (one, stranger)]:
            with pytest.raises(LinkDown):
                await asking.links.ask(asked.links.broker, Kind.PING, timeout_s=0.3)
        await stranger.close()


async def test_only_the_names_of_nodes_are_let_in(tmp_path: Path) -> None:
    authority = trustme.CA()
    settings = replace(secured(tmp_path, authority), names="CN=somebody, CN=nobody")
    async with linked(2, settings) as (one, _):
        with pytest.raises(LinkDown):
            await one.links.ask(2, Kind.PING, timeout_s=0.5)


async def test_a_plain_node_cannot_talk_to_one_that_demands_certificates(tmp_path: Path) -> None:
    async with linked(1, secured(tmp_path, trustme.CA())) as (one,):
        plain = Linked(0, PeerSettings(port=0))
        await plain.open()
        introduce([one, plain])
        with pytest.raises(LinkDown):
            await plain.links.ask(1, Kind.PING, timeout_s=0.3)
        await plain.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: node\r\n\r\n",
        b"\x00\x00\x00\x04junk",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"".join(frame(Head(Form.REQUEST, Kind.PING, 2, 1, 1))),
        b"".join(frame(Head(Form.HELLO, 0, 2, 1, 0), [b"\xc1"])),
        b"".join(frame(Head(9, 0, 2, 1, 0))),
    ],
    ids=["http", "short", "huge", "negative", "no hello", "broken hello", "unknown form"],
)
async def test_garbage_ends_its_own_connection_only(data: bytes) -> None:
    async with linked(2) as (one, two):
        await until_connected(one, two)
        reader, writer = await asyncio.open_connection(*two.listener.advertised)
        writer.write(data)
        async with asyncio.timeout(60):
            await reader.read()
        writer.close()
        assert bytes(await one.links.ask(2, Kind.PING, [b"there?"])) == b"there?"


def test_nodes_must_ask_each_other_for_certificates() -> None:
    with pytest.raises(InvalidSetting, match=r"peer\.tls\.client_auth must be required"):
        PeerSettings(tls=TlsSettings(certificate="c.pem")).check()
    PeerSettings().check()
