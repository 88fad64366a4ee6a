"""Debian packages, downloaded by an apt with its own root, and the files in them."""

import gzip
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from sources import Source

Files = dict[str, bytes]

MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Apt:
    """apt with its own root, so the machine's package lists do not change."""

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
        """The files of a source, downloaded unless they are there already."""
        names = source.packages.split()
        binary = [name for name in names if not name.startswith("src:")]
        files = [file for _, file, _ in self.uris("download", *binary)] if binary else []
        missing = [file.partition("_")[0] for file in files if not (self.downloads / file).exists()]
        if missing:
            self.run("apt-get", "download", *missing)
            for file in self.root.glob("*.deb"):
                file.replace(self.downloads / file.name)
        for name in [name.removeprefix("src:") for name in names if name not in binary]:
            for address, file, checksum in self.uris("source", "--download-only", name):
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
