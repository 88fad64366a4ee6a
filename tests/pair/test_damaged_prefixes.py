"""Claim: a kept file that was changed in any of more than 100 ways is refused in one line that
names it, and nothing of it stays; a writer that is killed leaves no part that counts."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator

import pytest

import edgespec
from depth import DEEP
from edgespec.artifact.kept import tensor_file
from edgespec.errors import EdgespecError

Kind = tuple[str, bytes]


@pytest.fixture(scope="module")
def pair(tiny_folder) -> edgespec.Pair:
    return edgespec.load(tiny_folder, threads=1)


@pytest.fixture(scope="module")
def kept(pair, tmp_path_factory) -> dict[str, bytes]:
    """Two files of the pair: of other prompts, of other lengths."""
    folder = tmp_path_factory.mktemp("kept")
    made = {}
    for prompt in ("A short prompt", "Another, which is longer"):
        pair.save_prefix(prompt, folder / "prefix")
        made[prompt] = (folder / "prefix").read_bytes()
    return made


def parted(content: bytes) -> tuple[dict, bytes]:
    """The header and the arrays."""
    begin = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:begin]), content[begin:]


def joined(header: dict, arrays: bytes, signed: bool = False) -> bytes:
    """A file; `signed` with the checksum that is right for it."""
    if signed:
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        said = {k: v for k, v in header["__metadata__"].items() if k != "crc32"}
        checksum = zlib.crc32(arrays, zlib.crc32(tensor_file._signed(said, entries)))
        header = {"__metadata__": {**said, "crc32": f"{checksum:08x}"}, **entries}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + arrays


def sizes(content: bytes) -> Iterator[Kind]:
    header = int.from_bytes(content[:8], "little")
    for eighths in range(8):
        yield f"cut to {eighths}/8", content[: len(content) * eighths // 8]
    for at in (1, 7, 8, 9, 8 + header, 9 + header, len(content) - 1):
        yield f"cut to {at} bytes", content[:at]
    for more in (b"\0", b" " * 8, content[-100:], content):
        yield f"{len(more)} bytes more", content + more
    for wrong in (0, 1, header - 8, header + 8, len(content), 2**31, 2**63, 2**64 - 1):
        yield f"a header of {wrong} bytes", wrong.to_bytes(8, "little") + content[8:]
    yield "a header in the other order of bytes", header.to_bytes(8, "big") + content[8:]
    for text in (b"[", b"{}", b"null", b"[1]", b'"x"', b"\xff", b"{" * 9, b'{"__metadata__": 1}'):
        yield f"the header {text!r}", content[:8] + text.ljust(header) + content[8 + header :]
    nested = b"[" * header
    yield "a deep header", content[:8] + nested + content[8 + header :]
    draw = random.Random(1)
    for number in range(300 if DEEP else 24):
        at = draw.randrange(8 + header) if number % 2 else draw.randrange(8 + header, len(content))
        changed = bytearray(content)
        changed[at] ^= 1 << draw.randrange(8)
        yield f"byte {at} flipped", bytes(changed)


def entries(content: bytes) -> Iterator[Kind]:
    """Each array's entry in the header, changed."""
    header, arrays = parted(content)
    names = [name for name in header if name != "__metadata__"]
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        entry = header[name]
        start, end = entry["data_offsets"]
        for what, changed in {
            "shape": {"shape": [*entry["shape"], 2]},
            "negative shape": {"shape": [-side for side in entry["shape"]]},
            "shape of words": {"shape": ["a"]},
            "type": {"dtype": "I8" if entry["dtype"] != "I8" else "F16"},
            "unknown type": {"dtype": "F8"},
            "start": {"data_offsets": [start + 4, end]},
            "end": {"data_offsets": [start, end + 4]},
            "ends": {"data_offsets": [end, start]},
            "no ends": {"data_offsets": []},
        }.items():
            yield f"{what} of {name}", joined({**header, name: {**entry, **changed}}, arrays)
        gone = {key: value for key, value in header.items() if key != name}
        yield f"without {name}", joined(gone, arrays)
        swapped = {**header, name: header[other], other: entry}
        yield f"{name} as {other}", joined(swapped, arrays)
        renamed = {("x" + key if key == name else key): value for key, value in header.items()}
        yield f"{name} renamed", joined(renamed, arrays)
        yield f"{name} renamed, and signed", joined(renamed, arrays, signed=True)


def digests(content: bytes) -> Iterator[Kind]:
    """What the file says that it is of, changed; signed where the pair must see it itself."""
    header, arrays = parted(content)
    said = header["__metadata__"]

    def of(metadata: object, signed: bool = False) -> bytes:
        return joined({**header, "__metadata__": metadata}, arrays, signed)

    for name, value in said.items():
        yield f"{name} changed", of({**said, name: value[:-1] + "?"})
        yield f"{name} left out", of({key: text for key, text in said.items() if key != name})
        if name in ("kind", "target.model", "target.runtime"):
            gone = {key: text for key, text in said.items() if key != name}
            yield f"{name} left out, and signed", of(gone, signed=True)
            for wrong in ("", "0" * 64, value.upper() + " ", 5, None, ["a\nb"], "a\nb" * 999):
                yield f"{name} {wrong!r:.20}, and signed", of({**said, name: wrong}, signed=True)
    for title in (5, None, "a\nb\r\x1b[31m" * 99, ["\n"]):
        changed = {**said, "target.title": title, "target.model": "other"}
        yield f"title {title!r:.20}, and signed", of(changed, signed=True)


def exchanged(content: bytes, other: bytes) -> Iterator[Kind]:
    """Parts of another file of the same pair."""
    (header, arrays), (other_header, other_arrays) = parted(content), parted(other)
    yield "another's arrays", joined(header, other_arrays)
    yield "another's header", joined(other_header, arrays)
    mixed = {**other_header, "__metadata__": header["__metadata__"]}
    yield "another's entries", joined(mixed, other_arrays)
    half = len(arrays) // 2
    yield "another's second half", joined(header, arrays[:half] + other_arrays[half : len(arrays)])
    yield "another's beginning", other[: len(content) // 2] + content[len(content) // 2 :]


def others() -> Iterator[Kind]:
    """Other files."""
    yield "zeros", bytes(4096)
    yield "JSON", b'{"kind": "edgespec prefix 1"}'
    yield "a program", b"\x7fELF" + bytes(range(256)) * 9
    yield "an archive", b"PK\x03\x04" + bytes(200)
    yield "noise", random.Random(3).randbytes(5000)


def kinds(kept: dict[str, bytes]) -> list[Kind]:
    content, other = kept.values()
    made = [*sizes(content), *entries(content), *digests(content)]
    made += [*exchanged(content, other), *others()]
    return [(name, damaged) for name, damaged in made if damaged != content]


def test_each_of_100_kinds_of_damage_is_one_line(pair, kept, tmp_path):
    file, names = tmp_path / "prefix", set()
    for name, damaged in kinds(kept):
        file.write_bytes(damaged)
        with pytest.raises(EdgespecError) as error:
            pair.use_prefix(file)
        line = str(error.value)
        assert line.isprintable(), name
        assert len(line) < 400 + len(str(file)), name
        assert str(file) in line, name
        assert pair.target.prefixes.best([], -1) is None, name
        names.add(name)
    assert len(names) >= 100
    file.write_bytes(next(iter(kept.values())))
    assert pair.use_prefix(file) > 0
    pair.forget_prefix()


def test_a_file_without_its_checksum_taken_for_whole_is_seen(pair, kept, tmp_path, monkeypatch):
    """Mutant: nothing is compared with the checksum."""
    monkeypatch.setattr(tensor_file.zlib, "crc32", lambda *_: 0)
    content = next(iter(kept.values()))
    header, arrays = parted(content)
    header["__metadata__"]["crc32"] = "00000000"
    file = tmp_path / "prefix"
    file.write_bytes(joined(header, arrays[:-1] + bytes([arrays[-1] ^ 1])))
    assert pair.use_prefix(file) > 0
    pair.forget_prefix()


# --- writers that are killed ---------------------------------------------------------------------

WRITER = (
    "import sys, edgespec\n"
    "pair = edgespec.load(sys.argv[1], threads=1)\n"
    "for number in range(10**6):\n"
    "    pair.save_prefix('A prompt that is kept again and again', sys.argv[2])\n"
    "    if not number: print(flush=True)\n"
)


def test_a_killed_writer_leaves_the_file_before_or_the_whole_new_one(pair, tiny_folder, tmp_path):
    """It is killed at other moments each time. What it had begun is in a hidden file, which the
    next writer of the name removes."""
    file = tmp_path / "prefix"
    begun = 0
    for number in range(40 if DEEP else 1):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tiny_folder), str(file)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.005 + 0.0037 * number)
            writer.send_signal(signal.SIGKILL)
        names = sorted(each.name for each in tmp_path.iterdir())
        assert names in (["prefix"], [".prefix.partial", "prefix"])
        begun += len(names) - 1
        assert pair.use_prefix(file) == len("A prompt that is kept again and again")
    if DEEP:
        assert begun > 0, "it was never killed while it wrote"
    pair.forget_prefix()
    pair.save_prefix("Another", file)
    assert os.listdir(tmp_path) == ["prefix"]
