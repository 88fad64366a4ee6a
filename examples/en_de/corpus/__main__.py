"""Make the English-German parallel text of this example from Debian 12 packages.

    python examples/en_de/corpus OUT_DIR [SOURCE ...]

Writes TSV files, one pair `english<TAB>german` a line, UTF-8, NFKC, no duplicates:

    descriptions.tsv, descriptions-valid.tsv    package descriptions, the texts to translate
    documents.tsv                               paragraphs of manuals
    messages.tsv                                messages of programs, three words or more
    lexicon.tsv                                 words and short phrases of a dictionary
    complete                                    empty, written last

The split: with h = int.from_bytes(sha256(english).digest(), "big") % 100, h = 2 is validation, h in
{0, 1} is held out for the evaluation and written to no file, the rest is training text. The other
corpora leave out every pair with h in {0, 1, 2}, and every pair that repeats a held-out or
validation description or ten words in a row of one.

Method: apt, with its own root under OUT_DIR/downloads, resolves versions and checks hashes.
Manuals that exist only in rendered form (man pages, HTML, DocBook, Mallard) are split into blocks,
and the blocks of the two languages are aligned. Every source writes OUT_DIR/parts/SOURCE.tsv; an
existing part is only made again if SOURCE is named.

Licences, by the packages' copyright files. Neither the text nor files made from it are committed.

    descriptions         those of the packages; translations by the Debian Description Translation
                         Project, GPL-2
    manpages             GPL-3+ (translations), each original page as its program
    debian-manuals       debian-handbook GPL-2+ or CC-BY-SA-3.0; debian-reference, maint-guide and
                         harden-doc GPL-2 or later; developers-reference GPL-2; debmake-doc Expat;
                         debian-faq verbatim or modified copies under the same notice
    installation-guide   GPL-2
    debian-edu           GPL-2+
    tool-manuals         apt, dpkg and aptitude GPL-2+, debconf BSD-2-clause
    gimp-help            GFDL-1.2+
    gnome-help           mostly CC-BY-SA-3.0 or GFDL
    gnucash-guide        GFDL-1.1+ without invariant sections
    kde-help             GFDL-1.1 or 1.2+
    program-manuals      Apache-2.0 (apache2-doc), GPL-2+ or CC-BY-SA-3.0 (kicad-doc), GPL-3+
    libreoffice, -help   MPL-2.0
    *-messages           as their programs, mostly GPL-2+, GPL-3+, LGPL or PostgreSQL
    freedict             GPL-3+
"""

import re
import sys
from pathlib import Path

from descriptions import read_descriptions
from packages import Apt
from pairs import Pair, read_pairs, write_pairs
from parts import make_part
from sources import SOURCES
from split import HeldOut, bucket


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: corpus OUT_DIR [SOURCE ...]")
    out, named = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if unknown := set(named) - {source.name for source in SOURCES}:
        sys.exit(f"error: no source {', '.join(sorted(unknown))}")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    (out / "downloads").mkdir(exist_ok=True)
    complete = out / "complete"
    complete.unlink(missing_ok=True)
    apt = Apt(out / "downloads")

    descriptions = read_descriptions(apt)
    train = [pair for pair in descriptions if bucket(pair[0]) > 2]
    valid = [pair for pair in descriptions if bucket(pair[0]) == 2]
    write_pairs(out / "descriptions.tsv", train)
    write_pairs(out / "descriptions-valid.tsv", valid)
    print(f"descriptions: {len(train)} to train, {len(valid)} to validate", flush=True)
    held_out = HeldOut(english for english, _ in descriptions if bucket(english) < 3)

    vocabulary = {
        word for english, _ in train for word in re.findall(r"[\w'-]+", english.casefold())
    }

    seen = set(descriptions)
    for output in ("documents", "messages", "lexicon"):
        joined: list[Pair] = []
        for source in SOURCES:
            if source.output != output:
                continue
            part = out / "parts" / f"{source.name}.tsv"
            if source.name in named or (not named and not part.exists()):
                try:
                    print(
                        f"{source.name}: {make_part(apt, source, held_out, vocabulary, part)}",
                        flush=True,
                    )
                except (
                    RuntimeError,
                    OSError,
                    EOFError,
                    AssertionError,
                ) as error:  # the last: HTMLParser's
                    print(f"{source.name}: left out, {error}", file=sys.stderr, flush=True)
            if part.exists():
                new = [pair for pair in read_pairs(part) if pair not in seen]
                seen.update(new)
                joined += new
                write_pairs(out / f"{output}.tsv", joined)
        print(f"{output}.tsv: {len(joined)} pairs", flush=True)
    complete.touch()


if __name__ == "__main__":
    main()
