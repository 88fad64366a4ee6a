"""Exported pairs on a hub: fetched and sent whole or not at all, each file with its digest."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from edgespec.artifact.atomic_file import named_errors
from edgespec.artifact.integrity import check_weights
from edgespec.artifact.kept.used_mark import pairs_home
from edgespec.artifact.manifest import MANIFEST, read_manifest
from edgespec.errors import EdgespecError, UsageError, needs_extra, one_line, shortened

__all__ = ["HubPair", "pull_pair", "pulled_folder", "push_pair"]

BLOCK = 1 << 20  # bytes that are read at once
SECONDS = 30  # without a byte, after which a hub has stopped
PART = ".part"  # of a file that is not whole
COMMIT = ".commit"  # in a folder that is not whole: which commit its files are of

Advance = Callable[[str, int, int], object]  # a file's name, bytes that are there, all of its bytes


@dataclass(frozen=True)
class HubPair:
    """A repository with an exported pair.

    Attributes:
        repository: "owner/name".
        revision: a branch, tag or commit; None for the newest.
    """

    repository: str
    revision: str | None = None

    @classmethod
    def named(cls, name: str) -> HubPair:
        """Raises UsageError if it is no owner/name, or owner/name@revision."""
        repository, at, revision = name.partition("@")
        owner, _, last = repository.partition("/")
        if not owner or not last or "/" in last or ".." in name or (at and not revision):
            raise UsageError(f"{shortened(name)} is no repository; give one as owner/name")
        return cls(repository, revision or None)


def pulled_folder(pair: HubPair) -> Path:
    """Where a pair is kept that was pulled: commands find it as "owner--name"."""
    return pairs_home() / pair.repository.replace("/", "--")


def pull_pair(
    pair: HubPair, folder: Path, *, replace: bool = False, advance: Advance | None = None
) -> bool:
    """Fetches a pair into a folder, which appears when every file has the digest that the manifest
    says. After a break the next call goes on where the last one ended.

    Returns whether anything was fetched: False where the folder is what the hub has.

    Raises:
        UsageError: the folder is something else, and is not replaced.
        EdgespecError: there is no such pair, the hub stopped, or what it sent is damaged.
    """
    _check_place(folder)
    with _alone(folder), _hub_errors(pair.repository):
        files = _RemoteFiles(pair)
        aside = _begun(folder.with_name(f".{folder.name}.download"), files.commit)
        manifest = files.fetch(MANIFEST, aside, None, advance)
        if (folder / MANIFEST).is_file():
            if (folder / MANIFEST).read_bytes() == manifest.read_bytes():
                shutil.rmtree(aside)
                return False
            if not replace:
                raise UsageError(f"{folder} holds another pair; replace it with --force")
        for name, record in _records(manifest).items():
            files.fetch(name, aside, record, advance)
        check_weights(aside, read_manifest(aside).files)
        (aside / COMMIT).unlink()
        _put(aside, folder)
    return True


def push_pair(folder: Path, pair: HubPair, *, private: bool = False) -> str:
    """Sends a pair in one commit, and returns the commit's address. A repository that is missing is
    made. After a break the next call sends only what the hub lacks.

    Raises:
        EdgespecError: the folder is not as it was exported, or the hub refuses or stopped.
    """
    manifest = read_manifest(folder)
    check_weights(folder, manifest.files)
    with needs_extra("hub"):
        hub = importlib.import_module("huggingface_hub")
    names = [*sorted(manifest.files), MANIFEST]
    with _hub_errors(pair.repository):
        if sys.stderr is None or not sys.stderr.isatty():
            importlib.import_module("huggingface_hub.utils").disable_progress_bars()
        api = hub.HfApi(endpoint=_endpoint())
        api.create_repo(pair.repository, private=private, exist_ok=True)
        added = [hub.CommitOperationAdd(name, str(folder / name)) for name in names]
        commit = api.create_commit(
            pair.repository,
            added,
            commit_message=f"{manifest.target.source} for edgespec",
            revision=pair.revision,
        )
    return str(commit.commit_url)


class _RemoteFiles:
    """The files of a repository at one commit.

    Attributes:
        commit: its id, so that no file of another one comes among them.
    """

    def __init__(self, pair: HubPair) -> None:
        with needs_extra("hub"):
            self._hub = importlib.import_module("huggingface_hub")
        info = self._hub.HfApi(endpoint=_endpoint()).model_info(
            pair.repository, revision=pair.revision
        )
        self.commit = str(info.sha)
        self._repository = pair.repository
        names = {sibling.rfilename for sibling in info.siblings or ()}
        if MANIFEST not in names:
            raise EdgespecError(
                f"{pair.repository} has no {MANIFEST}, so it is no exported pair; edgespec export "
                f"{pair.repository} makes one of a checkpoint"
            )

    def fetch(
        self,
        name: str,
        folder: Path,
        record: Mapping[str, Any] | None,
        advance: Advance | None,
    ) -> Path:
        """A file, from where the last attempt ended.

        Args:
            record: "bytes" and "sha256"; None of the manifest, which has its own digest in it.
        """
        file = folder / PurePosixPath(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file() and record is not None and _digest(file) == record["sha256"]:
            return file
        part = file.with_name(file.name + PART)
        if record is None:
            part.unlink(missing_ok=True)
        size = self._fetch_rest(name, part, advance)
        if part.stat().st_size != size:
            raise EdgespecError(
                f"{self._repository}: the hub stopped in the middle of {name}, at "
                f"{part.stat().st_size} of {size} bytes: try again, it goes on from there"
            )
        if record is not None and _digest(part) != record["sha256"]:
            part.unlink()
            raise EdgespecError(
                f"{self._repository}: {name} is not the file that was exported; nothing of it was "
                "kept: try again, or push the pair again"
            )
        part.replace(file)
        return file

    def _fetch_rest(self, name: str, part: Path, advance: Advance | None) -> int:
        """Appends what is missing. Returns the size that the file should have."""
        url = self._hub.hf_hub_url(
            self._repository, name, revision=self.commit, endpoint=_endpoint()
        )
        found = self._hub.get_hf_file_metadata(url, endpoint=_endpoint())
        begun = part.stat().st_size if part.exists() else 0
        size = int(found.size)
        if begun >= size:
            if begun > size:
                part.unlink()
            part.touch()
            return size
        headers = {"Range": f"bytes={begun}-"} if begun else {}
        if urlsplit(found.location).netloc == urlsplit(url).netloc:  # no token for other hosts
            headers |= importlib.import_module("huggingface_hub.utils").build_hf_headers()
        request = Request(found.location, headers=headers)
        with urlopen(request, timeout=SECONDS) as answer, part.open("ab", 0) as whole:
            if begun and answer.status != 206:  # a hub that sends all of it again
                whole.truncate(0)
                begun = 0
            while block := answer.read(BLOCK):
                with named_errors(part):  # a full disk is not the hub's
                    rest = memoryview(block)
                    while rest:
                        rest = rest[whole.write(rest) :]
                begun += len(block)
                if advance is not None:
                    advance(name, begun, size)
        return size


def _begun(aside: Path, commit: str) -> Path:
    """The folder of an earlier attempt. Parts of another commit's files are none of this one's."""
    aside.mkdir(parents=True, exist_ok=True)
    noted = aside / COMMIT
    if not (noted.is_file() and noted.read_text(encoding="utf-8") == commit):
        for part in aside.rglob(f"*{PART}"):
            part.unlink()
        noted.write_text(commit, encoding="utf-8")
    return aside


def _endpoint() -> str | None:
    """Another hub than the usual one: HF_ENDPOINT, as in every program that uses the hub.

    Raises:
        UsageError: it is no address.
    """
    endpoint = os.environ.get("HF_ENDPOINT") or None
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise UsageError(
            f"HF_ENDPOINT is {shortened(endpoint)}; give an address such as https://huggingface.co"
        )
    return endpoint


def _records(manifest: Path) -> dict[str, Mapping[str, Any]]:
    """What a manifest that is not checked yet says of its files: names that stay in the folder."""
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        for name, record in files.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
                raise EdgespecError(f"the manifest names {shortened(name)}; refused")
            str(record["sha256"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EdgespecError(f"{MANIFEST} on the hub is damaged ({error})") from None
    return dict(files)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _check_place(folder: Path) -> None:
    """Raises UsageError where no pair can be put."""
    is_empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not is_empty and not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder} exists and is not an exported pair; give another -o DIR")


def _put(aside: Path, folder: Path) -> None:
    """Gives a whole folder its name; the one that it replaces goes last."""
    old = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with needs_extra("hub"):
        from filelock import FileLock, Timeout
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{folder.name}.lock"), timeout=0):
            yield
    except Timeout:
        raise UsageError(f"another process is writing {folder}; wait until it has ended") from None


@contextmanager
def _hub_errors(repository: str) -> Iterator[None]:
    """One line for what a hub, or the way to it, raises."""
    with needs_extra("hub"):
        errors = importlib.import_module("huggingface_hub.errors")
    try:
        yield
    except (EdgespecError, UsageError, KeyboardInterrupt):
        raise
    except errors.HFValidationError as error:
        raise UsageError(f"{repository}: is no hub id ({one_line(error)})") from None
    except errors.RepositoryNotFoundError:
        raise EdgespecError(
            f"{repository}: no such repository on the hub, or no access: `hf auth login`"
        ) from None
    except errors.RevisionNotFoundError:
        raise EdgespecError(f"{repository}: has no such revision") from None
    except OSError as error:
        if not isinstance(error, URLError | ConnectionError | TimeoutError) and error.filename:
            raise  # of a file here
        raise EdgespecError(
            f"{repository}: the hub stopped ({_reason(error)}): try again, it goes on from there"
        ) from None
    except Exception as error:  # what a connection raises depends on the hub's version
        raise EdgespecError(
            f"{repository}: the hub stopped ({_reason(error)}): try again, it goes on from there"
        ) from None


def _reason(error: BaseException) -> str:
    """What was first to fail: "Error while uploading" says less."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(error)
