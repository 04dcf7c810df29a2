"""The documentation site: every page is in its navigation, and no link is dead."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_site_is_built_without_a_dead_link_or_a_lost_page(tmp_path: Path) -> None:
    """X4: strict: a warning is a failure."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = (tmp_path / "site").rglob("*.html")
    assert len(list(pages)) >= len(list((ROOT / "docs").rglob("*.md")))
    assert "https://fonts" not in (tmp_path / "site" / "index.html").read_text()


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "adr"
    listed = (folder / "index.md").read_text()
    assert [path.name for path in folder.glob("0*.md") if path.name not in listed] == []
