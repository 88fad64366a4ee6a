"""Transcribes a sound file with and without the draft, and compares the texts.

python examples/demo_whisper.py build/whisper [FILE.wav]

Without a file, speech is made by espeak-ng, which must be installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import edgespec

TEXT = (
    "The museum opens at nine in the morning and closes at six in the evening. Groups of more than "
    "ten people should book their visit two weeks in advance. When the snow melted, the river rose "
    "over the lower fields and carried off the old bridge. For three weeks nobody could cross."
)


def main() -> None:
    pair = edgespec.load(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        file = sys.argv[2] if len(sys.argv) > 2 else spoken(TEXT, Path(folder) / "speech.wav")
        texts, times = [], {}
        # The last one is what is done unless a caller asks for another: the clock chooses.
        for title, draft in (
            ("without", False),
            ("with the draft", "both"),
            ("by the clock", True),
        ):
            began = time.perf_counter()
            transcript = pair.transcribe(file, draft=draft)
            seconds = time.perf_counter() - began
            calls = transcript.stats.target_calls
            tokens = transcript.stats.tokens
            print(f"{title}: {seconds:.2f} s, {tokens} tokens in {calls} target calls")
            texts.append(transcript.token_ids)
            times[title] = seconds
    print(transcript.text)
    assert texts[0] == texts[1] == texts[2]
    print("All texts are the same, token by token.")
    print(verdict(times["without"] / times["with the draft"]))


def verdict(gain: float) -> str:
    """Whether the draft pays here, and why it does not."""
    if gain > 1:
        return f"The draft makes it {gain:.2f} times as fast."
    return (
        f"With the draft it is {gain:.2f} times as fast: its own encoder reads every window, and "
        "its steps cost much of the target's. So a transcript runs without it, unless the clock "
        "says that it pays."
    )


def spoken(text: str, path: Path) -> str:
    """Writes speech; its text is recognised less well than a person's."""
    try:
        subprocess.run(["espeak-ng", "-s", "140", "-w", str(path), text], check=True)
    except FileNotFoundError:
        sys.exit("espeak-ng is not installed: give a sound file, or apt-get install espeak-ng")
    return str(path)


if __name__ == "__main__":
    main()
