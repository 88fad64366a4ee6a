"""Claim: links between the Markdown files work, and the API page names everything public.

`make docs` checks the links inside docs/; this also checks the files outside of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgespec

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def pages() -> list[Path]:
    """Every Markdown file of the checkout, but none that was built or installed."""
    folders = ("docs", "examples", "models", "runtimes")
    found = [
        *ROOT.glob("*.md"),
        *(page for name in folders for page in (ROOT / name).rglob("*.md")),
    ]
    return sorted(
        page for page in found if not {"node_modules", "build"} & set(page.relative_to(ROOT).parts)
    )


def anchors(page: Path) -> set[str]:
    """What a link may name after "#": headings as GitHub and mkdocs write them."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for groups in LINK.findall(page.read_text(encoding="utf-8")):
        target = next(filter(None, groups))
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), target


def test_the_api_page_names_everything_public():
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: edgespec\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == edgespec.__all__


def test_the_readme_is_short_and_its_chart_drawn():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    for theme in ("light", "dark"):
        assert (ROOT / "docs" / "images" / f"speed-{theme}.svg").is_file()
