"""A kept context is used for the same graph, provider and options only, and while it is whole."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import onnxruntime as ort
import pytest

from edgespec.device.device import ProviderInfo
from edgespec_runtimes.ort.providers import Provider
from edgespec_runtimes.ort.providing.contexts import Context, open_with_context

SETTINGS = {"precision": "1", "backend_path": "/here/libQnnHtp.so"}


def provider(version: str = "2.7.0", hardware: str = "npu") -> Provider:
    return Provider(ProviderInfo("qnn", "qnn", version, hardware))


@pytest.fixture
def graph(tmp_path) -> Path:
    (tmp_path / "weights.data").write_bytes(b"weights")
    (tmp_path / "decoder-5.onnx").write_bytes(b"graph")
    return tmp_path / "decoder-5.onnx"


def kept(graph: Path) -> Context:
    context = Context(graph, provider(), SETTINGS)
    context.file.parent.mkdir(exist_ok=True)
    context.file.write_bytes(b"compiled")
    context.record()
    return context


def test_what_was_kept_is_found_again(graph):
    assert not Context(graph, provider(), SETTINGS).is_whole()
    kept(graph)
    assert Context(graph, provider(), SETTINGS).is_whole()
    assert Context(graph, provider(), {**SETTINGS, "backend_path": "/elsewhere"}).is_whole()


def test_another_version_device_option_graph_or_weight_has_none(graph):
    kept(graph)
    assert not Context(graph, provider("2.8.0"), SETTINGS).is_whole()
    assert not Context(graph, provider(hardware="other"), SETTINGS).is_whole()
    assert not Context(graph, provider(), {**SETTINGS, "precision": "0"}).is_whole()
    (graph.parent / "weights.data").write_bytes(b"others!!")
    assert not Context(graph, provider(), SETTINGS).is_whole()
    graph.write_bytes(b"another graph")
    assert not Context(graph, provider(), SETTINGS).is_whole()


@pytest.mark.parametrize("content", [b"", b"compileD", b"compiled and more"])
def test_a_damaged_one_is_named_and_removed(graph, caplog, content):
    context = kept(graph)
    context.file.write_bytes(content)
    with caplog.at_level(logging.INFO, "edgespec"):
        assert not context.is_whole()
    assert f"{context.file} cannot be used (it was changed)" in caplog.text
    assert not context.file.exists()


def test_one_that_was_cut_short_before_its_digest_was_written_is_not_used(graph):
    context = kept(graph)
    context.file.with_suffix(".sha256").unlink()
    assert not context.is_whole()


@pytest.fixture
def opened(monkeypatch):
    """What is opened, by the names of the files; one that contains "refused" cannot be."""
    opened = []

    def session(path, options, **_):
        opened.append(Path(path).name)
        if b"refused" in Path(path).read_bytes():
            raise RuntimeError("QNN context of another build\nat line 5")
        with suppress(RuntimeError):  # nothing is to be kept
            compiled = Path(options.get_session_config_entry("ep.context_file_path"))
            with compiled.open("xb") as file:  # ONNX Runtime replaces none
                file.write(b"compiled")
        return opened[-1]

    monkeypatch.setattr(ort, "InferenceSession", session)
    return opened


def start(graph: Path) -> object:
    """A start of a program with this graph."""
    return open_with_context(graph, ort.SessionOptions(), Context(graph, provider(), SETTINGS))


def test_the_first_start_compiles_the_graph_and_the_second_loads_what_that_made(graph, opened):
    kept_file = Context(graph, provider(), SETTINGS).file
    assert [start(graph), start(graph)] == [graph.name, kept_file.name]
    assert opened == [graph.name, kept_file.name]
    assert kept_file.read_bytes() == b"compiled"


def test_a_damaged_context_is_made_anew(graph, opened):
    context = kept(graph)
    context.file.write_bytes(b"compileD")
    assert [start(graph), start(graph)] == [graph.name, context.file.name]


def test_one_that_the_provider_refuses_is_named_and_made_anew(graph, opened, caplog):
    context = kept(graph)
    context.file.write_bytes(b"refused")
    context.record()
    with caplog.at_level(logging.INFO, "edgespec"):
        assert start(graph) == graph.name
    said = f"{context.file} cannot be used (QNN context of another build); it is made anew"
    assert said in caplog.text
    assert context.file.read_bytes() == b"compiled"
    assert start(graph) == context.file.name


def test_what_a_start_that_was_killed_left_is_in_nobodys_way(graph, opened):
    kept_file = Context(graph, provider(), SETTINGS).file
    kept_file.parent.mkdir()
    for ending in (".partial", ".partial.onnx"):
        (kept_file.parent / f".{kept_file.name}{ending}").write_bytes(b"half")
    assert [start(graph), start(graph)] == [graph.name, kept_file.name]
    names = {path.name for path in kept_file.parent.iterdir()}
    assert names == {kept_file.name, kept_file.with_suffix(".sha256").name}


def test_where_nothing_can_be_written_the_graph_is_compiled_each_time(graph, opened):
    (graph.parent / "contexts").write_text("in the place of the folder")
    assert [start(graph), start(graph)] == [graph.name, graph.name]


def test_a_graph_that_cannot_be_compiled_leaves_no_context(graph, opened):
    graph.write_bytes(b"refused")
    with pytest.raises(RuntimeError, match="another build"):
        start(graph)
    files = {path.name for path in graph.parent.rglob("*") if path.is_file()}
    assert files == {graph.name, "weights.data"}
