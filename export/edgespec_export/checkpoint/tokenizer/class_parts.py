"""Tokenizers that transformers' classes build from the vocabulary of a `tokenizer.json`.

From version 5 on, these classes take vocabulary, merges and post-processor from the file, and
everything else from their own code and the settings of `tokenizer_config.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram, WordPiece

from edgespec_export.checkpoint.tokenizer.mbart_codes import (
    MBART50_CODES,
    MBART_CODES,
    NLLB_CODES,
)
from edgespec_export.checkpoint.tokenizer.tokenizer_settings import Token, TokenizerSettings

__all__ = ["CLASSES", "NOT_READ", "TokenizerClass", "Vocabulary"]

Vocabulary = Mapping[str, Any]  # "type", "vocab", "merges"; "charsmap" of a SentencePiece model


@dataclass(frozen=True)
class TokenizerClass:
    """One of the classes.

    Attributes:
        model: the type of model that it builds: "BPE", "Unigram" or "WordPiece".
        build: makes the tokenizer, without added tokens and post-processor.
        named: special tokens, by role, where no file names others.
        additional: special tokens without a role, where no file lists any.
    """

    model: str
    build: Callable[[Vocabulary, TokenizerSettings], Tokenizer]
    named: Mapping[str, Token | None]
    additional: tuple[str, ...] = ()


def _bpe(source: Vocabulary, **options: Any) -> Tokenizer:
    merges: list[tuple[str, str]] = []
    for merge in source["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merges.append((left, right))
    return Tokenizer(BPE(vocab=source["vocab"], merges=merges, **options))


def _byte_bpe(source: Vocabulary) -> Tokenizer:
    return _bpe(source, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False)


def _gpt2(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _byte_bpe(source)
    prefix = settings.flag("add_prefix_space", False)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    return made


def _gpt_neox(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _gpt2(source, settings)
    made.normalizer = normalizers.NFC()
    return made


def _cohere(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _gpt_neox(source, settings)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), made.pre_tokenizer]
    )
    return made


# Words, digits one by one, punctuation and white space.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _qwen2(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _byte_bpe(source)
    made.normalizer = normalizers.NFC()
    prefix = settings.flag("add_prefix_space", False)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN2), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    return made


def _llama(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _bpe(source, fuse_unk=True, byte_fallback=True)
    return _metaspace(made, settings, "always" if settings.flag("legacy", False) else "first")


def _code_llama(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    unknown = str(settings.named.get("unk_token", "<unk>"))
    made = _bpe(source, fuse_unk=True, byte_fallback=True, unk_token=unknown)
    return _metaspace(made, settings, "first")


def _metaspace(made: Tokenizer, settings: TokenizerSettings, scheme: Any) -> Tokenizer:
    """With "▁" for spaces, and one before a text unless `add_prefix_space` is false."""
    prefix = settings.flag("add_prefix_space", True)
    made.pre_tokenizer = pre_tokenizers.Metaspace(
        prepend_scheme=scheme if prefix else "never", split=False
    )
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    return made


def _gemma(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    unknown = str(settings.named.get("unk_token", "<unk>"))
    made = _bpe(source, fuse_unk=True, byte_fallback=True, unk_token=unknown)
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return made


def _unigram(source: Vocabulary, unknown: int) -> Tokenizer:
    pieces = [(text, score) for text, score in source["vocab"]]
    made = Tokenizer(Unigram(pieces, unk_id=unknown, byte_fallback=False))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    made.decoder = decoders.Metaspace()
    return made


def _t5(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _unigram(source, 2)
    if source.get("charsmap"):
        made.normalizer = normalizers.Precompiled(source["charsmap"])
    return made


def _mbart(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    return _unigram(source, 3)


def _mbart50(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    made = _unigram(source, 3)
    one_space = normalizers.Replace(Regex(" {2,}"), " ")
    own = [normalizers.Precompiled(source["charsmap"])] if source.get("charsmap") else []
    made.normalizer = normalizers.Sequence([*own, one_space])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return made


def _pegasus(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    token = settings.named.get("unk_token")
    unknown = [text for text, _ in source["vocab"]].index(str(token or "<unk>"))
    made = _unigram(source, unknown)
    one_space = normalizers.Replace(Regex(" {2,}"), " ")
    if source.get("charsmap"):
        first: Any = normalizers.Precompiled(source["charsmap"])
    else:
        first = normalizers.Replace(Regex("\n"), " ")
    made.normalizer = normalizers.Sequence([first, one_space])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return made


def _nllb(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    unknown = str(settings.named.get("unk_token", "<unk>"))
    made = _bpe(source, unk_token=unknown, fuse_unk=True, byte_fallback=False)
    if source.get("charsmap"):
        one_space = normalizers.Replace(Regex(" {2,}"), " ")
        made.normalizer = normalizers.Sequence(
            [normalizers.Precompiled(source["charsmap"]), one_space]
        )
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made


def _bert(source: Vocabulary, settings: TokenizerSettings) -> Tokenizer:
    unknown = str(settings.named.get("unk_token", "[UNK]"))
    made = Tokenizer(WordPiece(source["vocab"], unk_token=unknown))
    accents = settings.values.get("strip_accents")
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=None if accents is None else settings.flag("strip_accents", False),
        lowercase=settings.flag("do_lower_case", True),
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    return made


_END_OF_TEXT: dict[str, Token | None] = dict.fromkeys(
    ("unk_token", "bos_token", "eos_token"), "<|endoftext|>"
)
_SENTENCEPIECE: dict[str, Token | None] = {
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}
_ROBERTA: dict[str, Token | None] = {
    **_SENTENCEPIECE,
    "sep_token": "</s>",
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_TRANSLATION: dict[str, Token | None] = {
    **_ROBERTA,
    "mask_token": AddedToken("<mask>", lstrip=True),
}
_WHISPER: dict[str, Token | None] = dict.fromkeys(
    ("unk_token", "bos_token", "eos_token"),
    AddedToken("<|endoftext|>", normalized=False, special=True),
)

CLASSES: Mapping[str, TokenizerClass] = {
    "BertTokenizer": TokenizerClass(
        "WordPiece",
        _bert,
        {f"{role}_token": f"[{role.upper()}]" for role in ("unk", "sep", "pad", "cls", "mask")},
    ),
    "CodeLlamaTokenizer": TokenizerClass(
        "BPE",
        _code_llama,
        _SENTENCEPIECE,
        ("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>", "<FILL_ME>"),
    ),
    "CohereTokenizer": TokenizerClass(
        "BPE",
        _cohere,
        {
            "unk_token": "<UNK>",
            "bos_token": "<BOS_TOKEN>",
            "eos_token": "<|END_OF_TURN_TOKEN|>",
            "pad_token": "<PAD>",
            "cls_token": "<CLS>",
            "sep_token": "<SEP>",
            "mask_token": "<MASK_TOKEN>",
        },
    ),
    "GPT2Tokenizer": TokenizerClass("BPE", _gpt2, _END_OF_TEXT),
    "GPTNeoXTokenizer": TokenizerClass(
        "BPE", _gpt_neox, {**_END_OF_TEXT, "pad_token": "<|padding|>"}
    ),
    "GemmaTokenizer": TokenizerClass(
        "BPE",
        _gemma,
        {
            "unk_token": "<unk>",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "mask_token": "<mask>",
        },
    ),
    "LlamaTokenizer": TokenizerClass("BPE", _llama, _SENTENCEPIECE),
    "MBart50Tokenizer": TokenizerClass(
        "Unigram",
        _mbart50,
        {key: value for key, value in _TRANSLATION.items() if key != "bos_token"},
        MBART50_CODES,
    ),
    "MBartTokenizer": TokenizerClass("Unigram", _mbart, _TRANSLATION, MBART_CODES),
    "NllbTokenizer": TokenizerClass(
        "BPE",
        _nllb,
        {
            **_TRANSLATION,
            "mask_token": AddedToken("<mask>", lstrip=True, normalized=True, special=True),
        },
        NLLB_CODES,
    ),
    "PegasusTokenizer": TokenizerClass(
        "Unigram",
        _pegasus,
        {
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
            "mask_token": "<mask_2>",
        },
        ("<mask_1>", *(f"<unk_{number}>" for number in range(2, 103))),
    ),
    "Qwen2Tokenizer": TokenizerClass(
        "BPE",
        _qwen2,
        dict.fromkeys(("unk_token", "eos_token", "pad_token"), "<|endoftext|>"),
    ),
    "RobertaTokenizer": TokenizerClass("BPE", _gpt2, _ROBERTA),
    "T5Tokenizer": TokenizerClass(
        "Unigram",
        _t5,
        {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        tuple(f"<extra_id_{number}>" for number in range(100)),
    ),
    "WhisperTokenizer": TokenizerClass("BPE", _gpt2, _WHISPER),
}

# Classes of transformers that do not take tokenizer.json as it is, and are not read here.
NOT_READ = frozenset(
    """
    Albert Barthez Bartpho BertGeneration BertJapanese Bertweet BigBird BioGpt Blenderbot
    BlenderbotSmall CLIP CTRL Camembert CodeGen Deberta DebertaV2 Esm FNet FSMT Flaubert Funnel
    GPTNeoXJapanese GPTSw3 Herbert Luke MLuke MPNet MyT5 Nougat OpenAIGPT PLBart Phobert
    ProphetNet Qwen3_5 Reformer RemBert SeamlessM4T Siglip Siglip2 Splinter XGLM XLM XLMRoberta
    XLNet
    """.split()
)
