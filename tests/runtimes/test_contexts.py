"""A kept context is used for the same graph, provider and options only, and while it is whole."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from edgespec.device.device import ProviderInfo
from edgespec_runtimes.ort.providers import Provider
from edgespec_runtimes.ort.providing.contexts import Context

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
    context.file.parent.mkdir()
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
