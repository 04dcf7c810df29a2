"""Runs the consumer application: a local, queryable copy of a topic."""

import os

from chordmq.cli.exits import EXIT_USAGE
from chordmq.cli.output import fail, say


def consumer_app() -> None:
    """Keep a local copy of a topic and answer queries about it; the environment says all.

    CONSUMER_TOPIC, CONSUMER_GROUP, CONSUMER_TYPE, CONSUMER_HOST, CONSUMER_PORT (8091),
    BROKER_HOST, BROKER_PORT (9081), BROKER_TOKEN, STORAGE_DATA_DIR; for TLS and more, see docs.

    \b
      CONSUMER_TOPIC=prices chordmq consumer-app
      curl localhost:8091/v1/latest/apple
    """
    import uvicorn

    from chordmq.consumer_app.service import application, from_environment

    try:
        settings = from_environment(os.environ)
    except ValueError as error:
        fail(str(error), EXIT_USAGE)
    scheme = "https" if settings.tls_certificate else "http"
    say(f"{settings.topic} on {scheme}://{settings.host}:{settings.port}")
    config = uvicorn.Config(
        application(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        timeout_graceful_shutdown=1,
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
    )
    uvicorn.Server(config).run()
