"""The description of the HTTP API: valid, whole, and true of a real node."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from openapi_spec_validator import validate
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.routing import Route

from chordmq.fronts.admin.app import Admin, application
from chordmq.fronts.admin.openapi import document
from chordmq.metrics import Metrics
from tests.running_node import RunningNode

TOPIC = "described"
EXAMPLES = 8
PAGE = Path(__file__).parents[3] / "docs" / "protocols" / "http.md"

ROUTES = [
    route
    for route in application(Admin(metrics=Metrics(), waiting=list, info=dict)).routes
    if isinstance(route, Route) and route.include_in_schema
]
DESCRIPTION = document(ROUTES)
PLACES = {
    (method, route.path) for route in ROUTES for method in (route.methods or set()) - {"HEAD"}
}
api = schemathesis.openapi.from_dict(DESCRIPTION).exclude(path_regex="/stream$")  # never ends
# Whether a name, a setting or a combination makes sense is more than a schema can say.
NOT_ASKED: list[schemathesis.CheckFunction] = [positive_data_acceptance]


@pytest.fixture(scope="module")
def site(node: RunningNode) -> str:
    """Give the address of a node that has one topic."""
    answer = httpx.post(f"{node.http}/v1/topics", json={"name": TOPIC, "partitions": 2}, timeout=60)
    assert answer.status_code in (201, 409)
    return node.http


@api.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_node_does_what_its_description_says(case: schemathesis.Case[Any], site: str) -> None:
    """C17: no request, whether it fits the description or not, is answered in another way."""
    case.call_and_validate(base_url=site, timeout=60, excluded_checks=NOT_ASKED)


def test_the_description_is_valid_openapi() -> None:
    """C17: other programs can read it."""
    validate(DESCRIPTION)
    assert DESCRIPTION["openapi"] == "3.1.0"


def test_the_node_serves_its_description(site: str) -> None:
    assert httpx.get(f"{site}/openapi.json", timeout=60).json() == DESCRIPTION


def test_every_route_is_described() -> None:
    described = {
        (method.upper(), path)
        for path, operations in DESCRIPTION["paths"].items()
        for method in operations
    }
    assert described == PLACES


def test_every_operation_says_what_it_does_under_a_name_of_its_own() -> None:
    operations = [one for path in DESCRIPTION["paths"].values() for one in path.values()]
    assert all(one["summary"] for one in operations)
    assert len({one["operationId"] for one in operations}) == len(operations)


def test_the_page_for_people_shows_every_route_and_needs_nothing_else(site: str) -> None:
    """C17: it works without the internet."""
    answer = httpx.get(f"{site}/docs", timeout=60)
    assert answer.headers["content-type"].startswith("text/html")
    for method, path in PLACES:
        assert f"<b>{method}</b><code>{path}</code>" in answer.text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", answer.text)


def test_the_documentation_has_every_route() -> None:
    rows = set(re.findall(r"^\| `([A-Z]+) ([^`]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert rows == PLACES
