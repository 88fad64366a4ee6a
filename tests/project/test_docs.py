"""Claim: links between the Markdown files work, the files they name exist, and the API pages name
everything public.

`make docs` checks the links inside docs/; this also checks the files outside of it.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import grimp
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


def test_decisions_have_the_numbers_of_their_pages():
    links = re.compile(r"\[(?:decision )?(\d+)\]\((?:[^)]*/)?(\d{4})-")
    found = [
        (page, int(said), int(number))
        for page in pages()
        for said, number in links.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 100
    assert [(page.name, said, number) for page, said, number in found if said != number] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page):
    named = FILE.findall(OUTPUT.sub("", page.read_text(encoding="utf-8")))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_a_walk_through_the_code_has_at_most_six_files():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, *walks = PICTURE.findall(page)
    assert len(walks) == 6
    for walk in walks:
        assert 1 <= len(set(FILE.findall(walk))) <= 6


def test_the_picture_of_the_rooms_has_every_room_of_the_import_contract():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (rooms, *_) = contracts["tool"]["importlinter"]["contracts"]
    names = {name for layer in rooms["layers"] for name in layer.split(" | ")}
    assert set(re.findall(r'\["([^"]+)"\]', PICTURE.findall(page)[0])) == names


def arrows(picture: str) -> set[tuple[str, str]]:
    """The arrows of a picture of rooms: from a room to one that it may import."""
    names = dict(re.findall(r'(\w+)\["([^"]+)"\]', picture))
    bare = re.sub(r'\["[^"]+"\]', "", picture)
    found = re.findall(r"^ *(\w+) --> (.+)$", bare, re.MULTILINE)
    return {
        (names[source], names[end.strip()]) for source, ends in found for end in ends.split("&")
    }


def test_every_import_between_rooms_follows_the_arrows_of_the_picture():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = arrows(PICTURE.findall(page)[0])
    below: dict[str, set[str]] = {}
    for source, end in drawn:
        below.setdefault(source, set()).add(end)
    rooms = {room for arrow in drawn for room in arrow}
    followed = {room: reached(room, below) for room in rooms}
    graph = grimp.build_graph(*sorted({room.partition(".")[0] for room in rooms}), cache_dir=None)
    homes = {name: room_of(name, rooms) for name in graph.modules}
    imports = {
        (homes[name], homes[imported])
        for name in graph.modules
        for imported in graph.find_modules_directly_imported_by(name)
        if homes[name] and homes[imported] and homes[name] != homes[imported]
    }
    assert len(imports) > 50
    assert {(above, under) for above, under in imports if under not in followed[above]} == set()


def room_of(module: str, rooms: set[str]) -> str | None:
    """The room that a module is in; None for `edgespec` itself, which imports from all."""
    return next((room for room in rooms if f"{module}.".startswith(f"{room}.")), None)


def reached(room: str, below: dict[str, set[str]]) -> set[str]:
    """All rooms that arrows lead to from a room."""
    found: set[str] = set()
    waiting = [room]
    while waiting:
        new = below.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def test_the_api_pages_name_everything_public():
    files = sorted((ROOT / "docs" / "reference").glob("api*.md"))
    whole = "\n".join(page.read_text(encoding="utf-8") for page in files)
    listed = re.findall(r"^::: edgespec\.(\w+)$", whole, re.MULTILINE)
    assert sorted(listed) == edgespec.__all__


def test_the_classes_from_a_request_to_a_call_exist():
    whole = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^Classes, in order:(.*?)^## ", whole, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(\w+)`", section)
    sources = [*(ROOT / "edgespec").rglob("*.py"), *(ROOT / "runtimes").glob("edgespec_*/**/*.py")]
    code = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    assert len(named) > 10
    assert [name for name in named if not re.search(rf"^class {name}\b", code, re.MULTILINE)] == []


def test_the_readme_is_short_and_its_chart_drawn():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert sum(any(map(str.isalpha, word)) for word in readme.split()) <= 900
    for theme in ("light", "dark"):
        assert (ROOT / "docs" / "images" / f"speed-{theme}.svg").is_file()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_is_wider_than_a_screen(page):
    """Rows of tables, pictures and code included."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 132] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_each_column_of_a_table_has_a_title(page):
    """A screen reader says it before each cell."""
    lines = page.read_text(encoding="utf-8").splitlines()
    titles = [above for above, line in pairwise(lines) if re.fullmatch(r"\s*\|[|: -]+\|\s*", line)]
    cells = [re.split(r"(?<!\\)\|", title.strip()[1:-1]) for title in titles]
    assert [row for row in cells if not all(map(str.strip, row))] == []
