"""Tokenizer folders of the kinds that checkpoints have, and texts to compare their ids on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from edgespec_export.checkpoint.tokenizer.mbart_codes import NLLB_CODES

# Sentences of several scripts and kinds; the vocabularies below are trained on them.
REAL = (
    "The quick brown fox jumps over the lazy dog, twice.",
    "hello world, it's 12:45 and we don't know 1234567 of them",
    "  two spaces,\ttabs\n\nand  empty lines \r\n",
    "def f(x):\n    return x ** 2  # a square\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "Съешь же ещё этих мягких французских булок",
    "日本語のテキストと中文。",
    "한국어 문장입니다",
    "हिन्दी में एक वाक्य",
    "العربية من اليمين ٣٤٥",
    "👨‍👩‍👧 family, 👍🏽 and 🇩🇪",
    "x ① y ２ z Ⅷ H₂O 1² ½",
    "e\u0301 é ﬁ Å ㎏",
    "a\u200bb\u200d\u00a0c\ufeffd",
    "<s> </s> <unk> <pad> <mask> [INST]",
    "https://example.org/a?b=c&d=%20",
)
ADDED = ("<|user|>", "<|end|>", "<think>", "[TOOL]", "en_XX", "de_DE", "<extra_id_3>")
CHARACTERS = "aehlorw ABÉßñжя日本かな한ह①２٣½²_-'\"“”.,!?\n\t\r  \u00a0\u200b\u200d👍🏽é<>|[]{}"


def texts(count: int, seed: int = 0) -> Iterator[str]:
    """Real sentences, parts of them, random characters, with and without added tokens."""
    yield from ("", " ", "  ", "\n", *REAL, *(f"a {token} b{token}" for token in ADDED))
    draw = random.Random(seed)
    for _ in range(count):
        pieces = []
        for _ in range(draw.randint(1, 5)):
            kind = draw.random()
            if kind < 0.4:
                text = draw.choice(REAL)
                start = draw.randrange(len(text))
                pieces.append(text[start : start + draw.randint(1, 20)])
            elif kind < 0.7:
                pieces.append("".join(draw.choices(CHARACTERS, k=draw.randint(1, 8))))
            else:
                spaces = draw.choice(("", " ", "  ", "\n"))
                pieces.append(f"{spaces}{draw.choice(ADDED)}{draw.choice(('', ' ', 'x'))}")
        yield "".join(pieces)


# --- tokenizers ----------------------------------------------------------------------------------


def byte_bpe(*, regex: bool = True) -> Tokenizer:
    """Like GPT-2's: bytes and merges."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    made.train_from_iterator(REAL * 3, trainer)
    return made


def sentencepiece_bpe(names: tuple[str, ...] = ("<unk>", "<s>", "</s>")) -> Tokenizer:
    """Like Llama 2's `tokenizer.json`: "▁" for spaces, bytes for unknown characters."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=[*names, *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
        limit_alphabet=80,
    )
    made.train_from_iterator(REAL[:6] * 3, trainer)
    whole = json.loads(made.to_str())
    model = models.BPE(
        whole["model"]["vocab"],
        [tuple(merge) for merge in whole["model"]["merges"]],
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    made = Tokenizer(model)
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(list(names))
    made.post_processor = processors.TemplateProcessing(
        single=f"{names[1]} $A", special_tokens=[(names[1], 1)]
    )
    return made


def unigram(names: tuple[str, ...], last: tuple[str, ...], unknown: int) -> Tokenizer:
    """Like T5's and mBART's.

    Args:
        names, last: special tokens before and after the pieces.
        unknown: index of the unknown token.
    """
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, show_progress=False, unk_token="<unk>")
    made.train_from_iterator(REAL[:8] * 3, trainer)
    learned = [tuple(entry) for entry in json.loads(made.to_str())["model"]["vocab"]]
    pieces = [entry for entry in learned if entry[0] not in (*names, *last, "<unk>")]
    vocab = [*((name, 0.0) for name in names), *pieces, *((name, 0.0) for name in last)]
    made = Tokenizer(models.Unigram(vocab, unk_id=unknown))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([AddedToken(name, normalized=False) for name in (*names, *last)])
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", made.token_to_id("</s>"))]
    )
    return made


def mbart(codes: tuple[str, ...]) -> Tokenizer:
    return unigram(("<s>", "<pad>", "</s>", "<unk>"), (*codes, "<mask>"), 3)


def nllb(codes: tuple[str, ...] = NLLB_CODES) -> Tokenizer:
    """Like NLLB's: merges of pieces, then the languages."""
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=names, show_progress=False)
    made.train_from_iterator(REAL[:8] * 3, trainer)
    model = json.loads(made.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    made = Tokenizer(models.BPE(model["vocab"], merges, unk_token="<unk>", fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([AddedToken(name, normalized=False) for name in (*names, *codes)])
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=True)])
    return made


def t5() -> Tokenizer:
    extra = tuple(f"<extra_id_{number}>" for number in reversed(range(100)))
    return unigram(("<pad>", "</s>", "<unk>"), extra, 2)


def word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    made.train_from_iterator(REAL * 3, trainer)
    made.decoder = decoders.WordPiece()
    return made


# --- folders -------------------------------------------------------------------------------------


def flags(content: str, **changes: bool) -> dict[str, Any]:
    """An added token as `added_tokens_decoder` has it."""
    values = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    return {"content": content, **values, "special": True, **changes}


def write_folder(
    folder: Path,
    tokenizer: Tokenizer | None,
    *,
    kind: str = "llama",
    **files: dict[str, Any],
) -> Path:
    """A folder with a tokenizer and a config.

    Args:
        kind: the config's model_type.
        files: contents of JSON files, by their names without the ending.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    if tokenizer is not None:
        tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def write_slow_bpe(folder: Path, tokenizer: Tokenizer, **options: Any) -> Path:
    """`vocab.json` and `merges.txt` alone, as slow tokenizers were saved."""
    write_folder(folder, None, **options)
    tokenizer.model.save(str(folder))
    return folder


Write = Callable[[Path], Path]
