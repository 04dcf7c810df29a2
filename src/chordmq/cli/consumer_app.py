"""Runs the consumer application: a local, queryable copy of a topic."""

import os

from chordmq.cli.output import EXIT_USAGE, fail, say


def consumer_app() -> None:
    """Keep a local copy of a topic and answer queries about it; the environment says all.

    CONSUMER_TOPIC, CONSUMER_GROUP, CONSUMER_TYPE, CONSUMER_HOST, CONSUMER_PORT (8091),
    BROKER_HOST, BROKER_PORT (9081), BROKER_TOKEN, STORAGE_DATA_DIR.

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
    say(f"{settings.topic} on http://{settings.host}:{settings.port}")
    config = uvicorn.Config(
        application(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run()
