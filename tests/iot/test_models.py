"""Tables of device models: built in, and from a file."""

from pathlib import Path

import pytest

from chordmq.iot.models import BadModels, Conversion, read_models


def test_a_file_adds_to_the_tables(tmp_path: Path) -> None:
    """E11: device models are tables that an operator keeps."""
    path = tmp_path / "models.yaml"
    path.write_text("metrics: {t1: temperature}\nunits: {dC: [C, 0.1]}\nlimits: {ph: [0, 14]}\n")
    models = read_models(path)
    assert models.metrics["t1"] == models.metrics["temp"] == "temperature"
    assert models.units["dC"] == Conversion("C", 0.1)
    assert models.limits["ph"] == (0.0, 14.0)


@pytest.mark.parametrize("text", ["units: {dC: 3}", "limits: {ph: [1]}", "metric: {}", "[", "3"])
def test_a_file_that_makes_no_sense_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(text)
    with pytest.raises(BadModels, match=r"models\.yaml"):
        read_models(path)
