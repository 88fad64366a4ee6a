"""Make the English-German parallel text of this example from Debian 12 packages.

    python examples/en_de/corpus.py OUT_DIR [SOURCE ...]

Writes TSV files, one pair `english<TAB>german` a line, UTF-8, NFKC, no duplicates:

    descriptions.tsv, descriptions-valid.tsv    package descriptions (what the translator is for)
    documents.tsv                               paragraphs of manuals
    messages.tsv                                messages of programs, three words or more
    lexicon.tsv                                 words and short phrases of a dictionary

The split. With h = int.from_bytes(sha256(english).digest(), "big") % 100: h = 2 is validation, h in
{0, 1} is held out for judging and is written to no file, the rest is training text. The other
corpora leave out every pair with h in {0, 1, 2}, and every pair that repeats a held-out or
validation description or ten words in a row of one.

How. apt, with a root of its own under OUT_DIR/downloads, resolves versions and checks hashes.
Manuals that exist only in rendered form (man pages, HTML, DocBook, Mallard) are cut into blocks,
and the blocks of the two languages are aligned. Every source leaves OUT_DIR/parts/SOURCE.tsv; a
part that is there is not made again, unless SOURCE is named.

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

import gzip
import html
import io
import math
import os
import re
import subprocess
import sys
import tarfile
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import polib

Pair = tuple[str, str]
Block = tuple[str, str]  # kind of the block, such as "p" or "h2", and its text
Files = dict[str, bytes]

MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Source:
    """A part of the corpus: `packages` are read by `reader` and join `output`.

    In `packages`, "name" is a binary package and "src:name" the tarball of a source package, whose
    file name contains `tarball`.
    """

    name: str
    output: str
    reader: str
    packages: str
    tarball: str = ".tar"


SOURCES = (
    Source("manpages", "documents", "manuals", """
        manpages-de manpages-de-dev manpages manpages-dev systemd coreutils util-linux
        libsane-common mtools grub-common gettext kbd procps openssh-client openssh-server gzip
        man-db bzip2 uuid-dev systemd-journal-remote psutils xz-utils udev dosfstools
        bsdextrautils recutils systemd-container sysvinit-core systemd-boot login passwd texinfo
        net-tools lprng vorbis-tools nfs-common bsdgames systemd-coredump psmisc systemd-homed
        bsdutils mutt systemd-resolved debianutils zutils mount init-system-helpers glibc-doc
        hostname less systemd-oomd e2fsprogs netpbm sysstat diffutils grep util-linux-extra
        sane-utils lpr libcrypt-dev systemd-timesyncd iptables locales elogind wodim cron
        gettext-base nano x11-xserver-utils systemd-userdbd uuid-runtime fdisk kmod ncurses-bin
        cpio icedax ed install-info make groff-base info tar usbutils w3m zstd anacron at parted
        ghostscript debhelper devscripts po4a dpkg-dev dpkg apt apt-utils cups-client
        cups-daemon cups cups-bsd cups-ipp-utils cups-ppdc debconf debconf-doc debconf-utils
        debconf-i18n po-debconf calibre vdr-plugin-epgsearch svn-buildpackage mpgtx tvtime
        imgvtopgm schroot live-tools sensible-utils adduser fakeroot dos2unix mkvtoolnix xine-ui
        vim-common sgt-puzzles
        """),
    Source("libreoffice-help", "documents", "libreoffice_help", "src:libreoffice", "translations"),
    Source("installation-guide", "documents", "po", "src:installation-guide"),
    Source("debian-edu", "documents", "po", "src:debian-edu-doc"),
    Source("debian-manuals", "documents", "manuals", """
        debian-handbook harden-doc debian-reference-de debian-reference-en developers-reference
        developers-reference-de maint-guide maint-guide-de debmake-doc debian-faq debian-faq-de
        """),
    Source("tool-manuals", "documents", "po_manuals", "src:apt src:dpkg src:debconf src:aptitude"),
    Source("gimp-help", "documents", "manuals", "gimp-help-de gimp-help-en"),
    Source("gnome-help", "documents", "manuals", """
        gnome-user-docs gnome-devel-docs evolution-common evince-common orca seahorse
        shotwell-common gedit-common gthumb-data eog gnome-terminal-data gnome-calculator gnote
        gnome-system-monitor gnome-boxes pitivi gnome-applets-data epiphany-browser-data
        gtranslator zenity-common gnome-dictionary glabels-data totem-common easytag meld
        bijiben mate-user-guide mate-applets-common mate-calc-common atril-common aisleriot
        anjuta-common frogr-data font-manager-common file-roller cheese-common ocrfeeder
        simple-scan brasero-common gbrainy modem-manager-gui-help geary kupfer gnome-music ghex
        baobab accerciser vinagre gnome-clocks polari hamster-time-tracker
        """),
    Source("gnucash-guide", "documents", "manuals", "gnucash-docs"),
    Source("kde-help", "documents", "manuals", """
        kdoctools5 krusader kmymoney-common plasma-desktop-data kate5-data kio-extras-data kmail
        plasma-workspace-data kio kphotoalbum konqueror umbrello-data partitionmanager kwin-data
        tellico-doc khelpcenter kturtle kile-doc step kdf kaddressbook kleopatra kcalc
        kalgebra-common kdenlive-data akregator konversation-data ktorrent-data kget rocs kmplot
        kig cantor skrooge-common parley-data okteta ktouch-data korganizer kontact konsole
        kexi-data kalarm okular gwenview kolourpaint kde-spectacle k3b-i18n dolphin ark kgpg
        kgeography-data
        """),
    Source("program-manuals", "documents", "manuals", """
        apache2-doc kicad-doc-de kicad-doc-en solfege-doc
        """),
    Source("libreoffice", "messages", "libreoffice_messages", "src:libreoffice", "translations"),
    Source("gnome-messages", "messages", "catalogs", """
        gnome-control-center-data libgtk-3-common libglib2.0-data evolution-common
        gnumeric-common gnucash-common gimp-data inkscape nautilus-data network-manager
        shotwell-common rhythmbox-data simple-scan evince-common totem-common gedit-common
        gnome-boxes deja-dup orca gparted homebank-data grisbi-common gramps dia-common
        geany-common pidgin-data claws-mail-i18n bleachbit virt-manager lyx-common audacity-data
        ardour-data darktable denemo-data vlc-l10n mate-control-center-common caja-common
        xfce4-settings xfce4-session thunar-data synaptic cinnamon-l10n anjuta-common
        """),
    Source("kde-messages", "messages", "catalogs", """
        plasma-workspace-data kdevelop-l10n plasma-desktop-data kdepim-runtime
        kdeplasma-addons-data kdepim-addons kate5-data calligra-data kinfocenter kwin-data
        plasma-nm kdeconnect kio-extras-data okular kmail konqueror kf5-messagelib-data
        krita-l10n digikam-data kdenlive-data kmymoney-common skrooge-common labplot-data kile
        kleopatra dolphin marble-data k3b-i18n tellico-data kalzium-data parley-data step
        kexi-data korganizer kaddressbook akregator konsole krusader partitionmanager
        umbrello-data powerdevil-data kgpg
        """),
    Source("tool-messages", "messages", "catalogs", """
        gcc-12-locales binutils-common coreutils gnupg-l10n git bash tar grub-common
        util-linux-locales aptitude-common apt dpkg dpkg-dev debconf-i18n gettext make
        postgresql-15 postgresql-client-15 sssd-common cryptsetup-bin e2fsprogs libparted2 wget
        lvm2 libc-l10n libvirt-l10n mutt texinfo r-base-core bison python3-django nano mc-data
        findutils sed grep gawk diffutils passwd sudo apparmor needrestart popularity-contest
        reportbug recode wdiff man-db xz-utils
        """),
    Source("games-messages", "messages", "catalogs", """
        wesnoth-1.16-data freeciv-data freedroidrpg-data
        """),
    Source("freedict", "lexicon", "freedict", "dict-freedict-eng-deu"),
)  # fmt: skip


# --- Packages ---------------------------------------------------------------------------------


class Apt:
    """apt with its own root, so that the machine's package lists stay as they are."""

    def __init__(self, downloads: Path):
        self.downloads = downloads
        self.root = root = downloads / "apt"
        for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        lines = (
            f"{kind} [signed-by={KEYRING}] {MIRROR} {SUITE} main\n" for kind in ("deb", "deb-src")
        )
        (root / "sources.list").write_text("".join(lines))
        config = root / "apt.conf"
        config.write_text(
            f'Dir "{root}"; Dir::State "{root}/state"; Dir::Cache "{root}/cache";\n'
            f'Dir::State::status "/dev/null"; Dir::Etc::sourcelist "{root}/sources.list";\n'
            f'Dir::Etc::parts "/dev/null"; Dir::Etc::sourceparts "/dev/null";\n'
            f'Dir::Etc::preferencesparts "/dev/null";\n'
            'Acquire::Languages { "en"; "de"; };\n'
            'APT::Sandbox::User "root"; APT::Architecture "amd64";\n'
        )
        self.environment = {**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"}
        if not self.lists("Translation-de"):
            self.run("apt-get", "update")

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"{' '.join(command[:3])}: {(done.stderr.strip().splitlines() or ['failed'])[0]}"
            )
        return done.stdout

    def lists(self, name: str) -> list[Path]:
        return sorted((self.downloads / "apt/state/lists").glob(f"*_{name}"))

    def fetch(self, source: Source) -> list[Path]:
        """The files of a source, downloaded where they are not there yet."""
        names = source.packages.split()
        binary = [name for name in names if not name.startswith("src:")]
        files = [file for _, file, _ in self.uris("download", *binary)] if binary else []
        missing = [file.partition("_")[0] for file in files if not (self.downloads / file).exists()]
        if missing:
            self.run("apt-get", "download", *missing)
            for file in self.root.glob("*.deb"):
                file.replace(self.downloads / file.name)
        for name in set(names) - set(binary):
            for address, file, checksum in self.uris(
                "source", "--download-only", name.removeprefix("src:")
            ):
                if source.tarball in file and re.search(r"(?<!\.debian)\.tar\.\w+$", file):
                    if not (self.downloads / file).exists():
                        self.run(
                            "/usr/lib/apt/apt-helper", "download-file", address, file, checksum
                        )
                        (self.root / file).replace(self.downloads / file)
                    files.append(file)
        return [self.downloads / file for file in files]

    def uris(self, *command: str) -> list[tuple[str, str, str]]:
        out = self.run("apt-get", "--print-uris", *command)
        return re.findall(r"^'(\S+)' (\S+) \d+ (\S+)", out, re.MULTILINE)


def deb_tar(path: Path) -> tarfile.TarFile:
    """The data of a .deb: an ar archive of an 8 byte magic and members with 60 byte headers."""
    with path.open("rb") as file:
        file.seek(8)
        while header := file.read(60):
            name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
            if name.startswith("data.tar"):
                return tarfile.open(fileobj=io.BytesIO(file.read(size)))
            file.seek(size + size % 2, os.SEEK_CUR)
    raise RuntimeError(f"{path.name}: no data.tar in it")


def read_files(archives: Iterable[Path], pattern: str) -> Files:
    """The regular files in .debs and tarballs whose path matches, by path."""
    found: Files = {}
    wanted = re.compile(pattern)
    for archive in archives:
        with deb_tar(archive) if archive.suffix == ".deb" else tarfile.open(archive) as tar:
            for member in tar:
                path = member.name.removeprefix("./")
                if member.isreg() and wanted.search(path) and (file := tar.extractfile(member)):
                    data = file.read()
                    found[path.removesuffix(".gz")] = (
                        gzip.decompress(data) if path.endswith(".gz") else data
                    )
    return found


# --- Split and cleaning -----------------------------------------------------------------------


def normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def bucket(english: str) -> int:
    return int.from_bytes(sha256(english.encode()).digest(), "big") % 100


class HeldOut:
    """The descriptions kept from training, and whether a text repeats one of them."""

    RUN = 10

    def __init__(self, english: Iterable[str]):
        self.lines: set[str] = set()
        self.runs: set[tuple[str, ...]] = set()
        for text in english:
            words = self.words(text)
            self.lines.add(" ".join(words))
            self.runs.update(self.of_run(words))

    def words(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    def of_run(self, words: list[str]) -> Iterator[tuple[str, ...]]:
        return zip(*(words[i:] for i in range(self.RUN)), strict=False)

    def __contains__(self, english: str) -> bool:
        words = self.words(english)
        return (
            bucket(english) < 3
            or " ".join(words) in self.lines
            or not self.runs.isdisjoint(self.of_run(words))
        )


def is_prose(text: str, least_words: int) -> bool:
    """Whether a text is words rather than code: enough of them, and most of its characters."""
    words = re.findall(r"[^\W\d_]{2,}", text)
    plain = re.findall(r"(?<![^\s(\"'»„“-])[^\W\d_]{2,}(?=[\s.,;:!?)\"'«“”-]|$)", text)
    return len(words) >= least_words and sum(map(len, plain)) >= 0.55 * len(text.replace(" ", ""))


ENGLISH = frozenset("the of and to is a for with that be this are on or it by from as at".split())
GERMAN = frozenset(
    "der die das und zu den ist für mit ein eine nicht im von auf wird dem des sie".split()
)


def is_english_german(english: str, german: str) -> bool:
    """Whether each side has no fewer small words of its own language than of the other."""
    for text, own, other in ((english, ENGLISH, GERMAN), (german, GERMAN, ENGLISH)):
        words = re.findall(r"\w+", text.casefold())
        found = sum(word in own for word in words)
        if found < sum(word in other - own for word in words) or (len(words) > 12 and not found):
            return False
    return True


def clean_pair(english: str, german: str, least_words: int) -> Pair | None:
    """The pair normalised, or None if it is not a sentence and its translation."""
    english, german = normal(english), normal(german)
    if not 1 <= len(english) <= 600 or not 1 <= len(german) <= 600:
        return None
    if not 0.4 <= len(german) / len(english) <= 2.5:
        return None
    if english == german or re.search(
        r"\s[.,;)](\s|$)|&[\w.-]+;|[\w”](Section|Figure|Chapter) \d", english + "\n" + german
    ):
        return None  # the second: a hole where a cross reference was, or an entity
    if not is_prose(english, least_words) or not is_prose(german, min(least_words, 1)):
        return None
    if least_words > 1 and not is_english_german(english, german):
        return None
    words = english.split()
    same = len(set(words) & set(german.split())) / len(set(words))
    if len(words) > 4 and same > 0.6:  # left in English, or mostly names
        return None
    if re.search(r"<[a-z/][^<>]*>|<!|\\[a-zA-Z(*]|[\ue000-\uf8ff�]", english + german):
        return None
    return english, german


def shorter(english: str, german: str) -> Iterator[Pair]:
    """A long paragraph as its sentences, where both sides have as many."""
    if max(len(english), len(german)) > 600:
        cut = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ»\"])")
        sides = cut.split(english), cut.split(german)
        if len(sides[0]) == len(sides[1]):
            yield from zip(*sides, strict=True)
    else:
        yield english, german


# --- Descriptions -----------------------------------------------------------------------------


def translations(path: Path, language: str) -> dict[str, list[str]]:
    """Description-md5 -> short description and paragraphs."""
    found = {}
    field = re.compile(rf"^Description-{language}: ?(.*(?:\n .*)*)", re.MULTILINE)
    for stanza in path.read_text(encoding="utf-8").split("\n\n"):
        md5, text = (
            re.search(r"^Description-md5: (\w+)", stanza, re.MULTILINE),
            field.search(stanza),
        )
        if md5 and text:
            short, _, rest = text[1].partition("\n")
            paragraphs = re.split(r"^[^\S\n]+\.[^\S\n]*$", rest, flags=re.MULTILINE)
            found[md5[1]] = [short, *(p for p in paragraphs if p.strip())]
    return found


def read_descriptions(apt: Apt) -> list[Pair]:
    """All pairs of descriptions, held-out ones too: short descriptions first, then paragraphs."""
    english, german = (
        translations(apt.lists(f"Translation-{code}")[0], code) for code in ("en", "de")
    )
    short, long = {}, {}
    for md5, translated in german.items():
        original = english.get(md5)
        if not original:
            continue
        short[normal(original[0]), normal(translated[0])] = None
        if len(original) == len(translated):
            for pair in zip(original[1:], translated[1:], strict=True):
                long[normal(pair[0]), normal(pair[1])] = None
    return [pair for pair in {**short, **long} if is_description(*pair)]


def is_description(english: str, german: str) -> bool:
    """The limits of the corpus that came before this recipe; they give exactly its lines."""
    if (
        english == german
        or len(english) > 900
        or len(german) > 1000
        or not re.search("[a-z]", english)
    ):
        return False
    return len(english) <= 20 or 0.4 <= len(german) / len(english) <= 3


# --- Alignment --------------------------------------------------------------------------------


def align(english: list[Block], german: list[Block], band: int = 40) -> Iterator[Pair]:
    """Pairs of blocks of the same kind, in order, by the cheapest path that may skip blocks.

    Pairing costs the distance of the lengths' logarithms and of the words that only one side has
    among numbers, names and options; skipping a block costs 1.2. Only paths within `band` blocks of
    the straight line are looked at. Where the kinds agree throughout, blocks pair one to one.
    """
    if [kind for kind, _ in english] == [kind for kind, _ in german]:
        yield from ((e, g) for (_, e), (_, g) in zip(english, german, strict=True))
        return
    rows, columns = len(english), len(german)
    band = max(band, abs(rows - columns) + 10)
    if rows * min(columns, 2 * band) > 2_000_000:
        return
    marks = [
        [set(re.findall(r"\S*[\d_/]\S*|-\w\S*", text)) for _, text in side]
        for side in (english, german)
    ]
    best: list[dict[int, tuple[float, int]]] = [{} for _ in range(rows + 1)]  # column -> cost, step
    for i in range(rows + 1):
        middle = i * columns // max(rows, 1)
        for j in range(max(0, middle - band), min(columns, middle + band) + 1):
            options = [(0.0, 0)] if i == j == 0 else []
            if i and j in best[i - 1]:
                options.append((best[i - 1][j][0] + 1.2, 1))
            if j and j - 1 in best[i]:
                options.append((best[i][j - 1][0] + 1.2, 2))
            if i and j and j - 1 in best[i - 1] and english[i - 1][0] == german[j - 1][0]:
                ratio = math.log((len(german[j - 1][1]) + 5) / (1.15 * len(english[i - 1][1]) + 5))
                either = marks[0][i - 1] | marks[1][j - 1]
                apart = len(marks[0][i - 1] ^ marks[1][j - 1]) / len(either) if either else 0.0
                options.append((best[i - 1][j - 1][0] + 2 * abs(ratio) + 1.5 * apart, 3))
            if options:
                best[i][j] = min(options)
    if columns not in best[rows]:
        return
    pairs, i, j = [], rows, columns
    while i or j:
        step = best[i][j][1]
        if step == 3:
            pairs.append((english[i - 1][1], german[j - 1][1]))
        i, j = i - (step != 2), j - (step != 1)
    if len(pairs) >= 0.9 * min(rows, columns):  # else the translation is of another edition
        yield from reversed(pairs)


# --- Blocks of manuals ------------------------------------------------------------------------

GROFF_CHARACTERS = {
    "aq": "'", "bu": "•", "em": "—", "en": "–", "lq": '"', "rq": '"', "oq": "'", "cq": "'",
    "dq": '"', "Aq": "'", "co": "©", "ha": "^", "ti": "~", "rs": "\\", "hy": "-", "mi": "-",
    "Fo": "«", "Fc": "»", "fo": "<", "fc": ">", "bq": "„", "Bq": "„", "ga": "`", "->": "→",
    "<-": "←", "mu": "×", "ss": "ß", ":a": "ä", ":o": "ö", ":u": "ü",
}  # fmt: skip
GROFF_STRINGS = {
    "lq": '"',
    "rq": '"',
    "Aq": "'",
    "(C`": '"',
    "(C'": '"',
    "C`": '"',
    "C'": '"',
    "--": "--",
    "R": "®",
}


def plain_groff(text: str) -> str:
    """Text without the escapes of groff; one that is not known stays, and its pair is dropped."""
    text = re.sub(r'\\".*', "", text)
    text = re.sub(r"\\f(\[\w*\]|\(..|.)", "", text)
    text = re.sub(r"\\s[-+]?\d", "", text)
    text = re.sub(
        r"\\\*(?:\((..)|\[([^\]]+)\]|(.))",
        lambda m: GROFF_STRINGS.get(m[1] or m[2] or m[3], m[0]),
        text,
    )
    text = re.sub(
        r"\\(?:\((..)|\[([^\]]+)\])", lambda m: GROFF_CHARACTERS.get(m[1] or m[2], m[0]), text
    )
    text = re.sub(r"\\[&/,|^:%c)]", "", text)
    text = re.sub(r"\\[~0 ]", " ", text)
    return (
        text.replace("\\-", "-")
        .replace("\\'", "'")
        .replace("\\`", "`")
        .replace("\\.", ".")
        .replace("\\e", "\\")
    )


def groff_arguments(text: str) -> list[str]:
    return [
        (a or b).replace('""', '"') for a, b in re.findall(r'"((?:[^"]|"")*)"?|((?:\\ |\S)+)', text)
    ]


def groff_blocks(data: bytes) -> list[Block]:
    """Headings, tags and paragraphs of a page written with the man macros; none for mdoc pages."""
    text = data.decode("utf-8", "replace")
    if re.search(r"^\.(so|Dd|Sh) ", text, re.MULTILINE):
        return []
    blocks: list[Block] = []
    kind, words, until, tag_next = "p", [], "", False

    def end(following: str = "p") -> None:
        nonlocal kind
        if found := " ".join(plain_groff(" ".join(words)).split()):
            blocks.append((kind, found))
        words.clear()
        kind = following

    for line in re.sub(r"\\\n", "", text).splitlines():
        request, _, rest = (
            line[1:].strip().partition(" ") if line[:1] in (".", "'") else ("", "", line)
        )
        if until:
            until = (
                ""
                if line.startswith(until) or (until == ".fi" and request in ("EE", "SH"))
                else until
            )
            continue
        if request in ("nf", "EX", "TS", "ig", "de", "de1", "EQ"):
            end()
            until = {"nf": ".fi", "EX": ".EE", "TS": ".TE", "EQ": ".EN"}.get(request, "..")
        elif request in ("SH", "SS"):
            end("h")
            words.append(" ".join(groff_arguments(rest)))
            if words[0]:
                end()
        elif request in ("TP", "TQ"):
            end("tag")
            tag_next = True
            continue
        elif request == "IP":
            end("tag")
            words.extend(groff_arguments(rest)[:1])
            end()
        elif request in ("PP", "P", "LP", "HP", "RS", "RE", "sp", "TH", "Sp", "Vb", "Ve"):
            end()
            until = ".Ve" if request == "Vb" else ""
        elif request in ("B", "I", "SM", "SB", "R"):
            words.append(" ".join(groff_arguments(rest)))
        elif request in ("BR", "RB", "IR", "RI", "BI", "IB"):
            words.append("".join(groff_arguments(rest)))
        elif request in ("UR", "MT"):
            continue
        elif request in ("UE", "ME"):
            words[-1:] = [words[-1] + rest] if words else []
        elif not request and line[:1] not in (".", "'"):
            if line.strip():
                words.append(line)
            else:
                end()
        else:
            continue
        if tag_next and words:
            tag_next = False
            end()
        elif kind == "h" and words:
            end()
    end()
    return blocks


class Markup(HTMLParser):
    """The blocks of an HTML, DocBook or Mallard page."""

    BLOCKS = frozenset(
        """
        p para simpara title subtitle h1 h2 h3 h4 h5 h6 li listitem term dt dd td th entry desc
        item caption section sect1 sect2 sect3 sect4 chapter div table tr ul ol dl list steps
        itemizedlist variablelist orderedlist varlistentry note tip warning caution important
        example figure page body blockquote row informaltable tbody thead tgroup terms header
        footer nav main article br hr synopsis
        """.split()
    )
    SKIPPED = frozenset(
        """
        script style pre programlisting screen literallayout code-block screenshot info
        articleinfo bookinfo head indexterm svg math footer nav synopsis cmdsynopsis
        informalequation equation index glossary glosslist
        """.split()
    )

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self.words: list[str] = []
        self.skipping: list[str] = []
        self.kind = "p"

    def end(self, following: str = "p") -> None:
        if text := normal("".join(self.words)):
            self.blocks.append((self.kind, text))
        self.words.clear()
        self.kind = following

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = dict(attrs).get("class") or ""
        if self.skipping:
            if tag == self.skipping[-1]:
                self.skipping.append(tag)
        elif (tag in self.SKIPPED and (tag != "info" or dict(attrs))) or re.search(
            "nav|toc|footnote|index|gloss", classes
        ):
            if tag not in ("br", "hr", "img", "body", "link", "meta"):
                self.end()
                self.skipping.append(tag)
        elif tag in self.BLOCKS:
            self.end(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.BLOCKS and not self.skipping:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        if self.skipping:
            if tag == self.skipping[-1]:
                self.skipping.pop()
        elif tag in self.BLOCKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.words.append(data)


def markup_blocks(data: bytes, entities: dict[str, str]) -> list[Block]:
    text = data.decode("utf-8", "replace")
    if re.search(r"charset=[\"']?iso-8859-1|encoding=[\"']iso-8859-1", text[:1500], re.IGNORECASE):
        text = data.decode("latin-1")
    entities = entities | declared_entities(text)
    text = re.sub(
        r"<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>|<!\[(?!CDATA).*?\]\]>", "", text, flags=re.DOTALL
    )
    text = re.sub(r"<(/?)(\w+):(\w+)", r"<\1\3", text)
    text = with_entities(text, entities)
    page = Markup()
    page.feed(text)
    page.close()
    page.end()
    return [block for block in page.blocks if not re.search(r"&[\w.-]+;", block[1])]


def declared_entities(text: str) -> dict[str, str]:
    found = re.findall(r"""<!ENTITY\s+([\w.-]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""", text)
    return {name: one or other for name, one, other in found}


def with_entities(text: str, entities: dict[str, str]) -> str:
    for _ in range(3):  # an entity's text may use others
        text = re.sub(r"&([\w.-]+);", lambda m: entities.get(m[1], m[0]), text)
    return text


def english_paths(german: str) -> Iterator[str]:
    """Where the English original of a German page may be."""
    for old, new in (
        ("/man/de/", "/man/"),
        ("/de-DE/", "/en-US/"),
        ("/help/de/", "/help/C/"),
        ("/HTML/de/", "/HTML/en/"),
        ("-reference-de/de/", "-reference/"),
        ("developers-reference/de/", "developers-reference/"),
        ("/de/", "/en/"),
        ("/de/", "/C/"),
        ("-de/", "-en/"),
        ("-de/", "/"),
        ("-de/", "-C/"),
    ):
        if old in german:
            path = german.replace(old, new)
            yield from (
                path,
                path.replace(".de.html", ".en.html"),
                path.replace(".de.html", ".html"),
            )
    yield from (german.replace(".de.html", ".en.html"), german.replace(".de.html", ".html"))


# --- Readers: one for each form of source -----------------------------------------------------


def read_manuals(archives: list[Path]) -> Iterator[Pair]:
    """Man pages, HTML, DocBook and Mallard pages: the blocks of both languages, aligned."""
    files = read_files(archives, r"/man/(de/)?man\d/|\.(html|page|docbook|xml|entities)$")
    entities: dict[str, str] = {}
    for path, data in files.items():
        if path.endswith(".entities") and not re.search(
            r"/HTML/(?!en/|de/)|customization/(?!entities|en/|de/)", path
        ):
            entities |= declared_entities(data.decode("utf-8", "replace"))
    for path, data in files.items():
        if not re.search(r"/(man|help|HTML|FAQ)/de/|/de-DE/|[/.]de[/.]|-de/", path):
            continue
        original = next((p for p in english_paths(path) if p != path and p in files), None)
        if original is None:
            continue
        if "/man/" in path:
            yield from align(groff_blocks(files[original]), groff_blocks(data))
        else:
            yield from align(
                markup_blocks(files[original], entities), markup_blocks(data, entities)
            )


def entries(catalog: Iterable[polib.POEntry | polib.MOEntry]) -> Iterator[Pair]:
    for entry in catalog:
        if isinstance(entry, polib.POEntry) and (entry.obsolete or entry.fuzzy):
            continue
        if entry.msgid_plural:
            yield entry.msgid, entry.msgstr_plural.get(0, "")
            yield entry.msgid_plural, entry.msgstr_plural.get(1, "")
        elif entry.msgstr:
            yield entry.msgid, entry.msgstr


def plain_markup(text: str) -> str:
    """A message without tags, entities, po4a's B<> and I<>, groff escapes and newlines."""
    text = re.sub(r"""<u?link\s[^<>]*(?:url|href)=["']([^"']*)["']\s*/>""", r"\1", text)
    while text != (text := re.sub(r"\b[BICEFLSX]<([^<>]*)>", r"\1", text)):
        pass
    text = re.sub(r"</?[a-zA-Z][^<>]*>", "", text)
    text = html.unescape(text.replace("\\n", " "))
    return plain_groff(text) if re.search(r"\\[-f(*&]", text) else text


def plain_message(text: str) -> str:
    """A message without markup and the mark of its shortcut key."""
    text = plain_markup(text)
    text = re.sub(r"\s?\([_&~]\w\)", "", text)
    return re.sub(
        r"(?<![\w%$&_~])([_&~])(?=\w)|(?<=[a-zäöü])[_&~](?=[a-zäöü]+\b(?![_(]))", "", text
    )


def read_po(archives: list[Path], pattern: str = r"(/po/de/.*|[/.]de)\.po$") -> Iterator[Pair]:
    """PO files of a source package, with the entities that its .ent files declare."""
    files = read_files(archives, rf"{pattern}|\.ent$")
    known: dict[str, str] = {}
    for path, data in files.items():
        if path.endswith(".ent") and not re.search(r"/[a-z]{2}(_[A-Z]{2})?(/|\.ent$)", path):
            known |= declared_entities(data.decode("utf-8", "replace"))
    for path, data in files.items():
        if not path.endswith(".ent"):
            for pair in entries(polib.pofile(data.decode("utf-8", "replace"))):
                if "<bookmark_value>" not in pair[0]:
                    english, german = (plain_markup(with_entities(text, known)) for text in pair)
                    yield english, german


def read_po_manuals(archives: list[Path]) -> Iterator[Pair]:
    yield from read_po(archives, r"/(doc|man)/.*de\.po$")


def read_libreoffice_help(archives: list[Path]) -> Iterator[Pair]:
    yield from read_po(archives, r"source/de/helpcontent2/.*\.po$")


def read_libreoffice_messages(archives: list[Path]) -> Iterator[Pair]:
    for data in read_files(archives, r"source/de/(?!helpcontent2).*\.po$").values():
        for english, german in entries(polib.pofile(data.decode("utf-8", "replace"))):
            yield plain_message(english), plain_message(german)


def read_catalogs(archives: list[Path]) -> Iterator[Pair]:
    """Compiled catalogs (.mo) of programs."""
    for data in read_files(archives, r"/de/LC_MESSAGES/.*\.mo$").values():
        try:
            catalog = polib.mofile(data)  # pyright: ignore[reportArgumentType]  # bytes will do
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        for english, german in entries(catalog):
            yield plain_message(english), plain_message(german)


def read_freedict(archives: list[Path]) -> Iterator[Pair]:
    """Headwords of a dictd dictionary, each with its first translation, without notes."""
    (data,) = read_files(archives, r"freedict-eng-deu\.dict\.dz$").values()
    note = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|/[^/]*/")
    other = re.compile(r"[^\w\s'-]|\b(sth|sb|etw|jd[mns]?)\b")
    found: dict[str, str] = {}
    for headword, translation in re.findall(
        r"^(\S.*) /.*/\n(\S.*)$", gzip.decompress(data).decode("utf-8"), re.MULTILINE
    ):
        english = note.sub("", headword).strip()
        german = re.split("[,;]", note.sub("", translation))[0].strip()
        if len(english.split()) <= 4 and not other.search(english + german):
            found.setdefault(english, german)
    yield from found.items()


READERS: dict[str, Callable[[list[Path]], Iterator[Pair]]] = {
    "manuals": read_manuals,
    "po": read_po,
    "po_manuals": read_po_manuals,
    "libreoffice_help": read_libreoffice_help,
    "libreoffice_messages": read_libreoffice_messages,
    "catalogs": read_catalogs,
    "freedict": read_freedict,
}


# --- Writing ----------------------------------------------------------------------------------


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    aside = path.with_suffix(f".{os.getpid()}.part")  # two runs may share OUT_DIR
    with aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{english}\t{german}\n" for english, german in pairs)
    aside.replace(path)


def read_pairs(path: Path) -> list[Pair]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [
        (english, german)
        for english, _, german in (line.partition("\t") for line in lines)
        if german
    ]


def make_part(apt: Apt, source: Source, held_out: HeldOut, vocabulary: set[str], path: Path) -> str:
    """Write the part of one source; returns what became of its pairs.

    The lexicon is limited to words that the descriptions use: they are what the translator is for.
    """
    start, raw, kept = time.monotonic(), 0, {}
    least_words = 1 if source.output == "lexicon" else 3
    held = 0
    for long_pair in READERS[source.reader](apt.fetch(source)):
        for pair in shorter(*long_pair):
            raw += 1
            if found := clean_pair(*pair, least_words):
                if source.output == "lexicon" and not vocabulary.issuperset(
                    found[0].casefold().split()
                ):
                    continue
                if found[0] in held_out:
                    held += 1
                else:
                    kept[found] = None
    write_pairs(path, kept)
    return f"{raw} pairs read, {len(kept)} kept, {held} held out, {time.monotonic() - start:.0f} s"


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: corpus.py OUT_DIR [SOURCE ...]")
    out, named = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if unknown := set(named) - {source.name for source in SOURCES}:
        sys.exit(f"error: no source {', '.join(sorted(unknown))}")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    (out / "downloads").mkdir(exist_ok=True)
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


if __name__ == "__main__":
    main()
