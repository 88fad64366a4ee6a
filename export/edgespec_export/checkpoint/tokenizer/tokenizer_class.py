"""Which of transformers' tokenizer classes reads a checkpoint, as `AutoTokenizer` chooses it."""

from __future__ import annotations

from edgespec_export.checkpoint.json_file import JsonObject
from edgespec_export.checkpoint.tokenizer.tokenizer_settings import TokenizerSettings

__all__ = ["AS_IT_IS", "tokenizer_class"]

AS_IT_IS = "TokenizersBackend"  # the class that takes tokenizer.json as it is
_GENERIC = {AS_IT_IS, "PreTrainedTokenizer", "PythonBackend"}
# The class of each kind of model; kinds that are not listed have none.
_REGISTERED = {
    "bart": "RobertaTokenizer",
    "cohere": "CohereTokenizer",
    "cohere2": "CohereTokenizer",
    "gemma": "GemmaTokenizer",
    "gemma2": "GemmaTokenizer",
    "gemma3": "GemmaTokenizer",
    "gemma3_text": "GemmaTokenizer",
    "glm4": AS_IT_IS,
    "gpt2": "GPT2Tokenizer",
    "gpt_neo": "GPT2Tokenizer",
    "gpt_neox": "GPTNeoXTokenizer",
    "gptj": "GPT2Tokenizer",
    "granite": AS_IT_IS,
    "m2m_100": "M2M100Tokenizer",
    "marian": "MarianTokenizer",
    "mbart": "MBartTokenizer",
    "ministral": AS_IT_IS,
    "ministral3": AS_IT_IS,
    "mistral": AS_IT_IS,
    "mistral3": AS_IT_IS,
    "mixtral": AS_IT_IS,
    "mt5": "T5Tokenizer",
    "nemotron": AS_IT_IS,
    "olmo": "GPTNeoXTokenizer",
    "olmo2": AS_IT_IS,
    "olmo3": AS_IT_IS,
    "opt": "GPT2Tokenizer",
    "pegasus": "PegasusTokenizer",
    "phi": "GPT2Tokenizer",
    "phi3": AS_IT_IS,
    "phimoe": AS_IT_IS,
    "qwen2": "Qwen2Tokenizer",
    "qwen2_moe": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
    "qwen3_moe": "Qwen2Tokenizer",
    "stablelm": AS_IT_IS,
    "starcoder2": "GPT2Tokenizer",
    "t5": "T5Tokenizer",
    "umt5": AS_IT_IS,
    "whisper": "WhisperTokenizer",
}
# Kinds of models whose checkpoints often name a wrong class.
_NAMED_WRONGLY = {"nemotron", "phi3", "phimoe", "qwen2"}
# Names of one class.
_ALIASES = {
    "BartTokenizer": "RobertaTokenizer",
    "BloomTokenizer": AS_IT_IS,
    "LEDTokenizer": "RobertaTokenizer",
    "PreTrainedTokenizer": AS_IT_IS,
    "PythonBackend": AS_IT_IS,
}


def tokenizer_class(settings: TokenizerSettings, config: JsonObject, byte_level: bool) -> str:
    """The class's name, without "Fast".

    Args:
        config: the model's.
        byte_level: `tokenizer.json` splits or joins text by bytes.
    """
    kind = config.get("model_type")
    kind = kind if isinstance(kind, str) else ""
    registered = _REGISTERED.get(kind)
    in_config = config.get("tokenizer_class")
    named = settings.tokenizer_class or (
        in_config.removesuffix("Fast") if isinstance(in_config, str) else None
    )
    wrong = kind in _NAMED_WRONGLY
    if named is None:
        return _ALIASES.get(registered or AS_IT_IS, registered or AS_IT_IS)
    if named == "LlamaTokenizer" and byte_level and not wrong:
        return AS_IT_IS
    if registered is not None and registered != named:
        if registered in _GENERIC:
            return AS_IT_IS
        named = registered if wrong else named
    return _ALIASES.get(named, named)
