"""Claim: an export reports all bytes of its checkpoints, and bars appear only on a terminal."""

from collections import Counter

import pytest

from edgespec_export.checkpoint.checkpoint import open_weights
from edgespec_export.export_pair import export_pair
from edgespec_export.progress import byte_bars, fraction_bar


@pytest.mark.parametrize("number_format", ["fp32", "int8"])
def test_a_finished_variant_has_reported_all_bytes_of_its_checkpoint(
    tiny_checkpoints, tmp_path, number_format
):
    """Whatever the format writes, bytes are those of the checkpoint as float32."""
    sizes, done = {}, Counter()

    def begin(what, size):
        sizes[what] = size

        def advance(count):
            done[what] += count

        return advance

    target = tiny_checkpoints[0]
    export_pair(
        str(target),
        None,
        tmp_path / "pair",
        target_formats=[number_format],
        measure=False,
        progress=begin,
    )
    weights = open_weights(target)
    elements = sum(weights.read(name).size for name in weights.names())
    assert sizes == {f"target {number_format}": 4 * elements}
    assert done == sizes


def test_bars_show_nothing_without_a_terminal(capfd):
    with byte_bars() as progress:
        progress("target fp32", 10)(10)
    with fraction_bar("training") as show:
        show(0.5, "loss 1.0")
    assert capfd.readouterr() == ("", "")


def test_bars_show_bytes_and_sentences_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with byte_bars() as progress:
        progress("target fp32", 4000)(1000)
    assert "target fp32" in (said := capfd.readouterr().err)
    assert "1.0/4.0 kB" in said
    with fraction_bar("training") as show:
        show(0.5, "loss 1.0")
    assert "loss 1.0" in capfd.readouterr().err
