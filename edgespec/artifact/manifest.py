"""The manifest of an exported folder: what its models are and which files belong to it.

Export writes it, runtimes read it, and neither imports the other. docs/reference/folder-format.md
describes the same for readers in other languages.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from edgespec.artifact.chat_format import ChatFormat
from edgespec.artifact.exported import Exported, FusedBlocks, Variant, check_model
from edgespec.artifact.generation_defaults import GenerationDefaults
from edgespec.artifact.hosts import HOSTS
from edgespec.artifact.integrity import FileRecord, check_file
from edgespec.artifact.languages import Languages
from edgespec.artifact.typed_json import parsed, write_json
from edgespec.errors import EdgespecError, shortened

__all__ = [
    "CHAT_TEMPLATE",
    "FORMAT_VERSION",
    "MANIFEST",
    "TOKENIZER",
    "VOCABULARY",
    "WEIGHTS",
    "Exported",
    "FusedBlocks",
    "Manifest",
    "Variant",
    "is_weights",
    "manifest_digest",
    "pair_digest",
    "read_manifest",
    "write_manifest",
]

FORMAT_VERSION = 5
MANIFEST = "edgespec.json"
TOKENIZER = "tokenizer.json"
# The target's chat template: {"template": Jinja, "special_tokens": {…}}.
CHAT_TEMPLATE = "chat_template.json"
# Of a draft that has only some of its target's tokens: {"outputs": […], "inputs": […]}.
VOCABULARY = "draft_vocabulary.json"
# In the folder of the graphs that read it. Where files are limited in size, what does not fit it is
# in "weights-2.data", "weights-3.data", …
WEIGHTS = "weights.data"


@dataclass(frozen=True)
class Manifest:
    """Everything in an exported folder, from `edgespec.json`.

    Attributes:
        eos_token_ids: tokens that end a text.
        chat: the texts around messages; None for models that do not chat, or whose template is
            more than such texts.
        target, draft: the models; without a draft the pair can still use prompt lookup.
        files: every file of the folder but the manifest: relative path to record.
        created_by: the exporter and its version.
        version: of this format.
        generation: the target's own settings for generating text.
        languages: of a translation model that is told them by tokens, else None.
        host: what the graphs were made for, one of `HOSTS`; None for any machine.
    """

    eos_token_ids: tuple[int, ...]
    chat: ChatFormat | None
    target: Exported
    draft: Exported | None
    files: dict[str, FileRecord] = field(default_factory=dict)
    created_by: str = ""
    version: int = FORMAT_VERSION
    generation: GenerationDefaults = field(default_factory=GenerationDefaults)
    languages: Languages | None = None
    host: str | None = None

    @property
    def chats(self) -> bool:
        """Whether the target has a chat format: a template, or texts around messages."""
        return self.chat is not None or CHAT_TEMPLATE in self.files

    def bytes(self, role: str, variant: str) -> int:
        """Size of a variant of the "target" or the "draft": its graphs and their weights."""
        graphs, weights = self._graphs(role, variant), self.weights(role, variant)
        return sum(
            record.bytes for name, record in self.files.items() if name in graphs or name in weights
        )

    def weights(self, role: str, variant: str) -> dict[str, FileRecord]:
        """Files with the weights of a variant of the "target" or the "draft"."""
        folders = {PurePosixPath(graph).parent for graph in self._graphs(role, variant)}
        return {
            name: record
            for name, record in self.files.items()
            if is_weights(name) and PurePosixPath(name).parent in folders
        }

    def _graphs(self, role: str, variant: str) -> set[str]:
        model = self.target if role == "target" else self.draft
        return set(model.variants[variant].graphs.values()) if model else set()


def is_weights(name: str) -> bool:
    """Whether a file of a folder holds weights, which the graphs next to it read."""
    return PurePosixPath(name).suffix == PurePosixPath(WEIGHTS).suffix


def manifest_digest(data: Mapping[str, object]) -> str:
    """SHA-256 of a manifest's JSON without "digest": keys sorted, no white space, UTF-8."""
    signed = {key: value for key, value in data.items() if key != "digest"}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def pair_digest(folder: Path) -> str:
    """SHA-256 of a pair's manifest, which tells it from other pairs. Raises OSError."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Writes `edgespec.json` with its digest; `read_manifest` gives the same object back."""
    data = dataclasses.asdict(manifest)
    write_json({**data, "digest": manifest_digest(data)}, folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """Reads `edgespec.json` and checks it, and the files that it names.

    Graphs and tables are compared by their digests, weights by their size
    (`integrity.check_weights` reads them).

    Raises:
        EdgespecError: no manifest, another format version, a manifest that was changed, a path
            that leaves the folder, a file that is missing, cut short or changed.
    """
    path = folder / MANIFEST
    if not path.is_file():
        lacks = f" has no {MANIFEST}" if folder.is_dir() else ": there is no such folder"
        raise EdgespecError(
            f"{folder}{lacks}, so it is not an exported pair; make one with: "
            "edgespec export TARGET DRAFT -o DIR"
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        _check_version(data["version"], folder)
        manifest = _manifest(data)
        digest = manifest_digest(data)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EdgespecError(f"{path} is damaged ({error}); export the pair again") from None
    if data.get("digest") != digest:
        raise EdgespecError(f"{path} was changed after export; export the pair again")
    _check_files(manifest, folder)
    return manifest


def _check_version(version: object, folder: Path) -> None:
    if version == FORMAT_VERSION:
        return
    older = isinstance(version, int) and version < FORMAT_VERSION
    way_out = "export the pair again" if older else "update edgespec or export the pair again"
    raise EdgespecError(
        f"{folder} has format version {shortened(version)} and this edgespec reads "
        f"{FORMAT_VERSION}; {way_out}"
    )


def _manifest(data: Mapping[str, object]) -> Manifest:
    """Raises ValueError where a field is missing, of another type or out of range."""
    fields = {key: value for key, value in data.items() if key != "digest"}
    manifest = parsed(Manifest, fields, "manifest")
    if manifest.host not in (None, *HOSTS):
        raise ValueError(f"host is {shortened(manifest.host)}")
    for model in (manifest.target, manifest.draft):
        if model is not None:
            check_model(model)
    for code, token in (manifest.languages.tokens if manifest.languages else {}).items():
        if not 0 <= token < manifest.target.vocab_size:
            raise ValueError(f"the language {shortened(code)} has the token {shortened(token)}")
    return manifest


def _check_files(manifest: Manifest, folder: Path) -> None:
    """Every file that the manifest names is recorded, and there as it was exported."""
    for name, record in manifest.files.items():
        check_file(folder, name, record)
    vocabulary = manifest.draft and manifest.draft.vocabulary
    named = {TOKENIZER, *([vocabulary] if vocabulary else [])} | {
        graph
        for model in (manifest.target, manifest.draft)
        if model
        for variant in model.variants.values()
        for graph in variant.graphs.values()
    }
    for name in sorted(named - set(manifest.files)):
        raise EdgespecError(
            f"{folder / MANIFEST} does not record {shortened(name)} among its files; "
            "export it again"
        )
