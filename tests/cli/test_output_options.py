"""Claim: an output that cannot be is refused before anything is measured; one that can be is
written where it was asked for.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from command import run
from edgespec.cli.plots import check_picture, plot_comparison
from edgespec.errors import UsageError
from edgespec.measure.compare import ComparedWay

NOSUCH = ("nosuch", "--text", __file__)


@pytest.mark.parametrize("command", [("export", "nosuch"), ("distill", *NOSUCH)], ids=str)
@pytest.mark.parametrize("out", ["-", "file", "pipe", "/dev/null"])
def test_a_folder_cannot_be_a_stream_or_a_file(command, out, tmp_path, monkeypatch):
    if os.name != "posix" and out in ("pipe", "/dev/null"):
        pytest.skip("Windows has others")
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    if out == "pipe":
        os.mkfifo("pipe")
    before = {path.name for path in tmp_path.iterdir()}
    result = run(*command, "-o", out, code=2)
    assert f"{out} is no folder; give -o a folder" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("command", ["tune", "compare"])
@pytest.mark.parametrize(
    ("plot", "said"),
    [
        ("-", "standard output has the table"),
        ("picture.docx", "no picture's ending"),
        (".", "cannot be a file"),
        ("none/picture.png", "cannot be a file"),
    ],
)
def test_a_picture_that_cannot_be_is_refused_before_anything_is_measured(
    command, plot, said, tmp_path, monkeypatch
):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    result = run(command, "nosuch", "--plot", plot, code=2)
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def rows():
    pytest.importorskip("matplotlib")
    fields = dict.fromkeys(ComparedWay.__dataclass_fields__, 1.0)
    ways = ("plain", "lookup")
    return [ComparedWay(**fields | {"kind": None, "way": way}) for way in ways]


def test_a_picture_has_the_name_and_the_kind_that_were_asked_for(rows, tmp_path):
    beginnings = {"a.png": b"\x89PNG", "a.PDF": b"%PDF", "a.svg": b"<?xml", "plain": b"\x89PNG"}
    for name, beginning in beginnings.items():
        plot_comparison(rows, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(beginning)
    assert {path.name for path in tmp_path.iterdir()} == beginnings.keys()


@pytest.mark.skipif(os.name != "posix", reason="Windows has other pipes")
def test_a_picture_goes_through_pipes_and_links(rows, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        plot_comparison(rows, tmp_path / "pipe")
        assert reader.communicate()[0].startswith(b"\x89PNG")
    (tmp_path / "real.png").write_bytes(b"old")
    (tmp_path / "real.png").chmod(0o600)
    (tmp_path / "link.png").symlink_to("real.png")
    plot_comparison(rows, tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "real.png").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="standard output"):
        check_picture(Path("/dev/stdout"))
