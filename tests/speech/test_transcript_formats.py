"""Claim: transcripts are subtitles and tables as other programs read them."""

from __future__ import annotations

from edgespec.speech.transcript import Segment, Transcript
from edgespec.speech.transcript_formats import srt_entry

SAID = Transcript(
    [
        Segment(0.0, 2.5, "It's <b> & done.", (1,)),
        Segment(3599.9996, 3725.04, "a --> b\tc", (2,)),
    ]
)


def test_subtitles_have_hours_minutes_seconds_and_milliseconds():
    assert SAID.srt() == (
        "1\n00:00:00,000 --> 00:00:02,500\nIt's <b> & done.\n\n"
        "2\n01:00:00,000 --> 01:02:05,040\na -> b\tc\n"
    )
    assert srt_entry(3, SAID.segments[0]).startswith("3\n00:00:00,000")


def test_webvtt_escapes_what_would_be_a_tag():
    assert SAID.vtt() == (
        "WEBVTT\n\n00:00.000 --> 00:02.500\nIt's &lt;b> &amp; done.\n\n"
        "01:00:00.000 --> 01:02:05.040\na -> b\tc\n\n"
    )


def test_a_table_has_milliseconds_and_no_further_tabs():
    assert SAID.tsv() == (
        "start\tend\ttext\n0\t2500\tIt's <b> & done.\n3600000\t3725040\ta --> b c\n"
    )


def test_nothing_said_is_an_empty_file_of_its_kind():
    nothing = Transcript()
    assert (nothing.srt(), nothing.vtt(), nothing.tsv()) == (
        "",
        "WEBVTT\n\n",
        "start\tend\ttext\n",
    )
