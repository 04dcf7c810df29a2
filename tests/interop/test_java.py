"""The Java client 4.3.0, unmodified, by the program in `java/`."""

import pytest

from tests.interop.program import ROOT, built, installed, run

CLASSES = ROOT / ".cache" / "interop" / "java" / "classes"
LIBRARIES = ROOT / ".cache" / "interop" / "java" / "lib"
# A client that lives for a second gains nothing from a large heap or a second compiler.
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


@pytest.mark.parametrize("check", ["topics", "settings", "records", "times", "groups"])
def test_the_java_client_finds_what_it_expects(bootstrap: str, name: str, check: str) -> None:
    """C1, C2, C3, C5, C6, C7: newest versions of every API that this client calls."""
    classpath = f"{built(CLASSES)}:{built(LIBRARIES)}/*"
    run([installed("java"), *OPTIONS, "-cp", classpath, "ClientCheck", bootstrap, name, check])
