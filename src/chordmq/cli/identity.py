"""The options that say who is asking: name, password or token, and the files of TLS."""

import getpass
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.output import fail

if TYPE_CHECKING:
    from chordmq.client.connection import ConnectionSettings
    from chordmq.client.security import Security


def _option(name: str, metavar: str | None, text: str) -> Any:
    variable = "CHORDMQ_" + name.removeprefix("--").upper().replace("-", "_")
    return typer.Option(
        name, metavar=metavar, envvar=variable, help=f"{text} Or set {variable}.", show_envvar=False
    )


User = Annotated[str | None, _option("--user", "NAME", "Log in as this user.")]
Password = Annotated[
    str | None,
    _option("--password", "TEXT", "Its password; others on this machine can see it here."),
]
Token = Annotated[str | None, _option("--token", "TEXT", "A token in place of a password.")]
Mechanism = Annotated[
    str | None, _option("--mechanism", "NAME", "SASL mechanism; SCRAM-SHA-512 unless told.")
]
Tls = Annotated[bool, _option("--tls", None, "Use TLS and trust the system's authorities.")]
TlsCa = Annotated[
    str | None, _option("--tls-ca", "FILE", "Use TLS and trust the authorities in this file.")
]
TlsCertificate = Annotated[
    str | None, _option("--tls-certificate", "FILE", "Show this certificate.")
]
TlsKey = Annotated[str | None, _option("--tls-key", "FILE", "Its private key.")]


def security() -> "Security":
    """Return who is asking, as the command line and the environment say."""
    from chordmq.client.security import PLAIN, Security

    given = click.get_current_context().find_root().params
    user, password = given.get("user") or "", given.get("password") or ""
    token = given.get("token") or ""
    if user and not (password or token):
        password = ask_password(f"Password of {user}: ")
    mechanism = given.get("mechanism") or ""
    if user and token and not mechanism:
        # A token of the node's own goes where a password goes.
        password, token, mechanism = token, "", PLAIN
    return Security(
        user=user,
        password=password,
        token=token,
        mechanism=mechanism,
        tls=bool(given.get("tls")),
        tls_ca=given.get("tls_ca") or "",
        tls_certificate=given.get("tls_certificate") or "",
        tls_key=given.get("tls_key") or "",
    )


def connection(patience_s: float | None = None) -> "ConnectionSettings":
    """Return how to reach a broker, as the command line says."""
    from chordmq.client.connection import ConnectionSettings

    settings = ConnectionSettings(security=security())
    if patience_s is None:
        return settings
    return replace(settings, connect_timeout_s=patience_s, request_timeout_s=patience_s)


def ask_password(prompt: str) -> str:
    """Read a password that is not shown, from the terminal whatever standard input is."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        fail("no terminal to ask for the password; set it in the environment", EXIT_USAGE)
    os.close(terminal)
    return getpass.getpass(prompt)
