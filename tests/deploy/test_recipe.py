"""What the recipe of the images says is true of the programs in them."""

import re

import pytest

from chordmq.config import Config, known
from tests.deploy.recipe import Stage, described
from tests.interop.program import ROOT

RECIPE = ROOT / "deploy" / "Dockerfile"
STAGES = described(RECIPE)
IMAGES = ("node", "pipeline", "registry", "consumer")


@pytest.mark.parametrize("image", [STAGES[name] for name in IMAGES], ids=IMAGES)
def test_an_image_runs_its_component_as_somebody_and_is_asked_whether_it_is_well(
    image: Stage,
) -> None:
    """B8, E15: not root, with a health check of a port that the image says it has."""
    assert image.user == "10001"
    assert image.entry == ["chordmq"]
    assert image.arguments
    (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/", " ".join(image.health))
    assert int(port) in image.ports
    assert image.environment["PATH"].startswith("/opt/chordmq/bin:")


def test_the_last_stage_is_the_node() -> None:
    assert list(STAGES)[-1] == "node", "it is what is built where nobody names a target"


def test_the_image_of_the_node_names_the_ports_of_all_its_fronts() -> None:
    """B8: every front that listens unless told otherwise, and the nodes' own."""
    fronts = {name.partition(".")[0] for name in known() if re.fullmatch(r"[a-z0-9]+\.port", name)}
    assert set(STAGES["node"].ports) == {getattr(Config(), front).port for front in fronts}


def test_everything_that_the_recipe_copies_is_let_through() -> None:
    """B8: the list of what the builder may see names all that it copies."""
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", RECIPE.read_text(), re.MULTILINE)
    assert {one.partition("/")[0] for one in " ".join(copied).split()} == allowed
