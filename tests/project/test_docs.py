"""Claim: links between the Markdown files work, the files they name exist, and the API page names
everything public.

`make docs` checks the links inside docs/; this also checks the files outside of it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import edgespec

ROOT = Path(__file__).parents[2]
FOLDERS = "benchmarks|edgespec|examples|export|runtimes|scripts|tests"
FILE = re.compile(rf"\b(?:{FOLDERS})/[\w/.-]*\.\w+\b")
OUTPUT = re.compile(r"^```text\n.+?^```", re.MULTILINE | re.DOTALL)  # what a command printed
PICTURE = re.compile(r"^```mermaid\n(.+?)^```", re.MULTILINE | re.DOTALL)
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


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page):
    named = FILE.findall(OUTPUT.sub("", page.read_text(encoding="utf-8")))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_walk_through_the_code_has_at_most_six_files():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, *walks = PICTURE.findall(page)
    assert len(walks) == 3
    for walk in walks:
        assert 1 <= len(set(FILE.findall(walk))) <= 6


def test_the_picture_of_the_rooms_has_every_room_of_the_import_contract():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (rooms, *_) = contracts["tool"]["importlinter"]["contracts"]
    names = {name for layer in rooms["layers"] for name in layer.split(" | ")}
    assert set(re.findall(r'\["([^"]+)"\]', PICTURE.findall(page)[0])) == names


def test_the_api_page_names_everything_public():
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: edgespec\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == edgespec.__all__


def test_the_readme_is_short_and_its_chart_drawn():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert sum(any(map(str.isalpha, word)) for word in readme.split()) <= 900
    for theme in ("light", "dark"):
        assert (ROOT / "docs" / "images" / f"speed-{theme}.svg").is_file()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_of_prose_is_wider_than_a_screen(page):
    """Rows of tables, pictures and code may be wider."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    wide = [
        line for line in prose.splitlines() if len(line) > 132 and not line.startswith(("|", "  <"))
    ]
    assert wide == []
