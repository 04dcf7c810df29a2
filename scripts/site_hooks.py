"""What mkdocs does to a page: links to files beside docs/ become the names of these files."""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((\.\./[^)#]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace links that leave the site; a file that is not there is a dead link."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, found[2]))
        if target.startswith("docs/"):
            return found[0]
        if not (ROOT / target).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {target}, which is not there")
        return f"{found[1]} (`{target}`)" if target not in found[1] else f"`{target}`"

    return _LINK.sub(replaced, markdown)
