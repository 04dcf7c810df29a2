"""Completes names of topics and groups in the shell, by asking the broker."""

import os

import typer

from chordmq.cli.options import address

PATIENCE_S = 1.0


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics that begin with what was typed; none when no broker answers."""
    return _names(ctx, incomplete, of_groups=False)


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups that begin with what was typed; none when no broker answers."""
    return _names(ctx, incomplete, of_groups=True)


def _names(ctx: typer.Context, incomplete: str, *, of_groups: bool) -> list[str]:
    import uvloop

    from chordmq.client.admin import Admin
    from chordmq.client.connection import ConnectionSettings
    from chordmq.client.errors import ClientError

    chosen = ctx.params.get("bootstrap") or ctx.find_root().params.get("bootstrap")
    bootstrap = address(chosen or os.environ.get("CHORDMQ_BOOTSTRAP"))

    async def ask() -> list[str]:
        patience = ConnectionSettings(connect_timeout_s=PATIENCE_S, request_timeout_s=PATIENCE_S)
        async with Admin(bootstrap, patience) as admin:
            if of_groups:
                return [row.group for row in await admin.groups()]
            return [info.name for info in await admin.topics()]

    try:
        names: list[str] = uvloop.run(ask())
    except (ClientError, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]
