"""What a MongoDB lacks is said before its changes are followed."""

from pathlib import Path

from chordmq.cdc.findings import Level
from chordmq.cdc.mongodb.check import findings
from tests.cdc.following import source_of
from tests.mongodb import running_mongod
from tests.replica_set import RunningReplicaSet


async def test_collections_without_images_are_pointed_out(
    mongodb: RunningReplicaSet, name: str
) -> None:
    with mongodb.client() as client:
        client[name].items.insert_one({})
    settings = {
        "name": "shop",
        "kind": "mongodb",
        "address": mongodb.address,
        "tables": {"include": [rf"{name}\..*"]},
        "before_images": True,
    }
    found = await findings(source_of(settings))
    assert not [one for one in found if one.level is Level.ERROR]
    told = {one.text: one for one in found if one.level is Level.WARNING}  # others may be there
    warning = told[f"{name}.items keeps no images"]
    assert "changeStreamPreAndPostImages" in warning.advice


async def test_a_server_without_a_replica_set_is_told_how_to_become_one(tmp_path: Path) -> None:
    with running_mongod(tmp_path) as address:
        settings = {"name": "shop", "kind": "mongodb", "address": address}
        found = await findings(source_of(settings))
    assert found[-1].level is Level.ERROR
    assert "rs.initiate()" in found[-1].advice
