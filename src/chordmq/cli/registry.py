"""Runs the registry, which gives nodes their roles and parents."""

from pathlib import Path
from typing import Annotated

import typer

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.output import fail, say

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Run the registry of a tree of nodes.

    \b
      chordmq registry serve
      chordmq serve --set pipes.registry=http://127.0.0.1:8090
      chordmq topology show
    """,
)

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@app.callback()
def registry() -> None:
    """Keep `serve` a subcommand, although it is the only one."""


@app.command()
def serve(
    directory: Annotated[Path, typer.Option(help="Where the tree is kept.")] = Path("registry"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8090,
    token: Annotated[
        str, typer.Option(envvar="CHORDMQ_REGISTRY_TOKEN", help="What nodes must show.")
    ] = "",
    operator_token: Annotated[
        str,
        typer.Option(envvar="CHORDMQ_REGISTRY_OPERATOR_TOKEN", help="What operators must show."),
    ] = "",
    dead_after: Annotated[float, typer.Option(min=1, help="Seconds of silence.")] = 10.0,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Clients must show a certificate of this authority.")
    ] = None,
) -> None:
    """Serve the registry's REST interface; /openapi.json describes it.

    \b
      chordmq registry serve
      chordmq registry serve --host 0.0.0.0 --token secret --operator-token more-secret
    """
    if host not in LOOPBACK and not (token or tls_client_ca):
        fail("beyond this machine nodes must prove who they are: give a --token", EXIT_USAGE)
    import ssl

    import uvicorn

    from chordmq.clock import SystemClock
    from chordmq.topology.registry.service import Registry, RegistrySettings, application

    settings = RegistrySettings(
        database=directory / "registry.db",
        token=token,
        operator_token=operator_token,
        dead_after_ms=round(dead_after * 1000),
    )
    config = uvicorn.Config(
        application(Registry(settings, SystemClock())),
        host=host,
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=1,
        ssl_certfile=tls_certificate,
        ssl_keyfile=tls_key,
        ssl_ca_certs=str(tls_client_ca) if tls_client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls_client_ca else ssl.CERT_NONE,
    )
    scheme = "https" if tls_certificate else "http"
    say(f"registry on {scheme}://{host}:{port}")
    uvicorn.Server(config).run()
