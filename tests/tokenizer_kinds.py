"""Every kind of tokenizer folder whose ids are compared with `AutoTokenizer`'s."""

from __future__ import annotations

from functools import partial

import pytest
from tokenizers import AddedToken, pre_tokenizers

from edgespec_export.checkpoint.tokenizer.mbart_codes import MBART50_CODES, MBART_CODES
from tokenizer_folders import (
    byte_bpe,
    flags,
    mbart,
    nllb,
    sentencepiece_bpe,
    t5,
    word_piece,
    write_folder,
    write_slow_bpe,
)

__all__ = ["FOLDERS"]


def config(name, **settings):
    return {"tokenizer_class": name, **settings}


def declared(start, *tokens):
    return {str(start + index): token for index, token in enumerate(tokens)}


def with_added(tokenizer, *tokens):
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in tokens])
    return tokenizer


TURNS = ("<|user|>", "<|end|>")


def digits():
    made = byte_bpe()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), made.pre_tokenizer]
    )
    return made


def llama_flags(**changed):
    """A Llama whose tokenizer_config.json names the turns with other flags than tokenizer.json."""
    made = sentencepiece_bpe()
    start = made.get_vocab_size()
    made.add_special_tokens(list(TURNS))
    tokens = declared(start, *(flags(token, **changed) for token in TURNS))
    special = declared(0, flags("<unk>"), flags("<s>"), flags("</s>"))
    return made, {"added_tokens_decoder": {**special, **tokens}}


def written_llama(folder, settings=(), **changed):
    made, listed = llama_flags(**changed)
    return write_folder(
        folder, made, tokenizer_config=config("LlamaTokenizer", **listed, **dict(settings))
    )


def with_new_token(folder, **flag):
    made = byte_bpe()
    new = {str(made.get_vocab_size()): flags("<think>", **flag)}
    return write_folder(
        folder, made, tokenizer_config=config("PreTrainedTokenizerFast", added_tokens_decoder=new)
    )


def other_flags(folder):
    made = with_added(byte_bpe(), "<|user|>", "<think>")
    new = {
        str(made.token_to_id("<|user|>")): flags("<|user|>", lstrip=True, rstrip=True),
        str(made.token_to_id("<think>")): flags("<think>", single_word=True, special=False),
    }
    return write_folder(
        folder, made, tokenizer_config=config("PreTrainedTokenizerFast", added_tokens_decoder=new)
    )


def old_files(folder, kind="llama", name="PreTrainedTokenizerFast"):
    """As transformers saved a tokenizer before version 4.34."""
    made = byte_bpe()
    start = made.get_vocab_size()
    added = {"<think>": start, "<|user|>": start + 1}
    special = {"eos_token": "</s>", "additional_special_tokens": ["<|user|>", "[TOOL]"]}
    special["pad_token"] = flags("<pad>", lstrip=True)
    return write_folder(
        folder,
        made,
        kind=kind,
        tokenizer_config=config(name, eos_token="</s>"),
        added_tokens=added,
        special_tokens_map=special,
    )


def resaved(folder, write):
    """What transformers 5 saves of a folder that it has read."""
    transformers = pytest.importorskip("transformers")
    source = write(folder / "source")
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder / "saved")
    (folder / "saved/config.json").write_text((source / "config.json").read_text())
    return folder / "saved"


def fast(make, name=None, kind="llama", **settings):
    files = {} if name is None else {"tokenizer_config": config(name, **settings)}
    return lambda folder: write_folder(folder, make(), kind=kind, **files)


FOLDERS = {
    "tokenizer.json alone": fast(byte_bpe),
    "digits one by one": fast(digits, "PreTrainedTokenizerFast"),
    "an unknown class": fast(byte_bpe, "MyOwnTokenizer"),
    "a byte-level Llama": fast(byte_bpe, "LlamaTokenizer"),
    "GPT-2": fast(byte_bpe, "GPT2Tokenizer", "gpt2"),
    "GPT-2 by its config": fast(byte_bpe, kind="gpt2"),
    "GPT-2 with a prefix space": fast(byte_bpe, "GPT2Tokenizer", "gpt2", add_prefix_space=True),
    "GPT-2 with add_bos_token": fast(byte_bpe, "GPT2TokenizerFast", "gpt2", add_bos_token=True),
    "GPT-2 as it is": fast(byte_bpe, "PreTrainedTokenizerFast", "gpt2", add_prefix_space=True),
    "GPT-NeoX": fast(byte_bpe, "GPTNeoXTokenizerFast"),
    "Cohere": fast(byte_bpe, "CohereTokenizerFast"),
    "Qwen2": fast(byte_bpe, "Qwen2Tokenizer", "qwen2"),
    "Qwen2 under a Llama's name": fast(byte_bpe, "LlamaTokenizerFast", "qwen2"),
    "Qwen3": fast(byte_bpe, "Qwen2Tokenizer", "qwen3", bos_token=None, pad_token="<pad>"),
    "BART": fast(byte_bpe, "BartTokenizer", "bart"),
    "BART by its config": fast(byte_bpe, kind="bart"),
    "Whisper": fast(byte_bpe, "GPT2Tokenizer", "whisper"),
    "Llama": fast(sentencepiece_bpe, "LlamaTokenizer"),
    "Llama, legacy": fast(sentencepiece_bpe, "LlamaTokenizerFast", legacy=True),
    "Llama, not legacy": fast(sentencepiece_bpe, "LlamaTokenizer", legacy=False),
    "Llama without a prefix space": fast(
        sentencepiece_bpe, "LlamaTokenizer", add_prefix_space=False
    ),
    "Llama with add_eos_token": fast(sentencepiece_bpe, "LlamaTokenizer", add_eos_token=True),
    "Llama without a class": fast(sentencepiece_bpe),
    "Phi-3 under a Llama's name": fast(sentencepiece_bpe, "LlamaTokenizer", "phi3", legacy=False),
    "Mistral under a Llama's name": fast(sentencepiece_bpe, "LlamaTokenizer", "mistral"),
    "Code Llama": fast(sentencepiece_bpe, "CodeLlamaTokenizer"),
    "Gemma": fast(sentencepiece_bpe, "GemmaTokenizer", "gemma3_text"),
    "Gemma by its config": fast(sentencepiece_bpe, kind="gemma3_text"),
    "T5": fast(t5, "T5Tokenizer", "t5"),
    "T5 by its config": fast(t5, kind="t5"),
    "mT5 as it is": fast(t5, "PreTrainedTokenizerFast", "mt5"),
    "mBART": fast(partial(mbart, MBART_CODES), "MBartTokenizer", "mbart"),
    "mBART from German": fast(
        partial(mbart, MBART_CODES), "MBartTokenizer", "mbart", src_lang="de_DE", tgt_lang="ro_RO"
    ),
    "mBART-50 from German": fast(
        partial(mbart, MBART50_CODES), "MBart50Tokenizer", "mbart", src_lang="de_DE"
    ),
    "mBART-50 whose codes are new": fast(
        partial(mbart, ("en_XX",)), "MBart50Tokenizer", "mbart", mask_token="<mask>"
    ),
    "NLLB": fast(nllb, "NllbTokenizer", "m2m_100"),
    "NLLB from German, as it was trained": fast(
        nllb, "NllbTokenizerFast", "m2m_100", src_lang="deu_Latn", legacy_behaviour=True
    ),
    "NLLB whose codes are new": fast(partial(nllb, ("eng_Latn",)), "NllbTokenizer", "m2m_100"),
    "NLLB with languages of its own": fast(
        partial(nllb, ("eng_Latn", "deu_Latn", "xyz_Latn")),
        "NllbTokenizer",
        "m2m_100",
        additional_special_tokens=["eng_Latn", "deu_Latn", "xyz_Latn"],
    ),
    "an NLLB saved by a new version": partial(
        resaved, write=fast(nllb, "NllbTokenizer", "m2m_100", src_lang="deu_Latn")
    ),
    "BERT's": fast(word_piece, "BertTokenizer", "gpt2"),
    "BERT's with capitals": fast(word_piece, "BertTokenizer", "bart", do_lower_case=False),
    "flags: rstrip": partial(written_llama, rstrip=True),
    "flags: lstrip, legacy": partial(written_llama, settings={"legacy": True}, lstrip=True),
    "flags: single_word": partial(written_llama, single_word=True),
    "flags: normalized": partial(written_llama, normalized=True),
    "a new token": with_new_token,
    "a new token that is not special": partial(with_new_token, special=False, lstrip=True),
    "other flags than tokenizer.json's": other_flags,
    "a new role": fast(byte_bpe, "PreTrainedTokenizerFast", image_token="[TOOL]"),
    "roles in a dictionary": fast(
        byte_bpe, "PreTrainedTokenizerFast", extra_special_tokens={"tool_token": "[TOOL]"}
    ),
    "roles with names of their own": fast(
        byte_bpe,
        "PreTrainedTokenizerFast",
        extra_special_tokens={"call": "[TOOL]", "th": "<think>"},
    ),
    "roles as transformers 5 saves them": fast(
        byte_bpe, "PreTrainedTokenizerFast", model_specific_special_tokens={"call": "[TOOL]"}
    ),
    "extra special tokens": fast(
        byte_bpe, "PreTrainedTokenizerFast", extra_special_tokens=["[TOOL]", "<think>"]
    ),
    "additional special tokens": fast(
        sentencepiece_bpe, "LlamaTokenizer", additional_special_tokens=["[TOOL]", "<think>"]
    ),
    "saved by an old version": old_files,
    "a GPT-2 saved by an old version": partial(old_files, kind="gpt2", name="GPT2Tokenizer"),
    "a Llama saved by a new version": partial(resaved, write=partial(written_llama, rstrip=True)),
    "an mBART saved by a new version": partial(
        resaved,
        write=fast(partial(mbart, MBART_CODES), "MBartTokenizer", "mbart", src_lang="de_DE"),
    ),
    "a T5 saved by a new version": partial(resaved, write=fast(t5, "T5Tokenizer", "t5")),
    "slow GPT-2": lambda folder: write_slow_bpe(folder, byte_bpe(), kind="gpt2"),
    "slow GPT-2 with add_bos_token": lambda folder: write_slow_bpe(
        folder,
        byte_bpe(),
        kind="gpt2",
        tokenizer_config=config("GPT2Tokenizer", add_bos_token=True, bos_token="<s>"),
        added_tokens={"<think>": 600, "<|user|>": 601},
    ),
    "slow Qwen2": lambda folder: write_slow_bpe(
        folder, byte_bpe(), kind="qwen2", tokenizer_config=config("Qwen2Tokenizer")
    ),
    "slow BART": lambda folder: write_slow_bpe(folder, byte_bpe(), kind="bart"),
}
