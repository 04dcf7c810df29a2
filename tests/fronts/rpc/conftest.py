"""Both procedure-call fronts, for tests of what they share."""

from collections.abc import AsyncIterator

import pytest

from tests.fronts.rpc.clients import Doors, doors


@pytest.fixture(params=["capnp", "grpc"])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Doors]:
    """Give clients of one of the two."""
    async with doors(request.param) as opened:
        yield opened
