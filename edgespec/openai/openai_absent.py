"""The fields that requests bring and that are not used: those of OpenAI, and of other servers that
take its requests. Some cannot change an answer; others would, and are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgespec.errors import UsageError, shortened
from edgespec.openai.json_value import JsonObject, JsonValue

__all__ = ["ABSENT", "HARMLESS", "INSTEAD", "check_absent", "check_absent_of"]

# About the caller, the service, its speed or its log: no text depends on them.
HARMLESS = frozenset(
    {
        # OpenAI
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "prediction"),
        # llama.cpp, Ollama
        *("cache_prompt", "id_slot", "slot_id", "keep_alive", "return_progress"),
        *("timings_per_token", "repeat_last_n"),
        # vLLM, SGLang
        *("priority", "request_id", "rid", "cache_salt", "kv_transfer_params"),
        *("spaces_between_special_tokens", "length_penalty", "early_stopping"),
        # LiteLLM, OpenRouter
        *("timeout", "num_retries", "drop_params", "custom_llm_provider", "extra_headers"),
        *("provider", "route", "transforms", "usage"),
    }
)
# Fields that would change an answer, each with the values that ask for nothing.
ABSENT: Mapping[str, tuple[JsonValue, ...]] = {
    # OpenAI
    **{"suffix": ("",), "echo": (False,), "audio": (), "web_search_options": ()},
    **{"functions": ([],), "function_call": ("none", "auto"), "modalities": (["text"],)},
    **{"reasoning_effort": (), "reasoning": (), "verbosity": ("medium",)},
    **{"input": (), "instructions": (), "prompt": (), "messages": ()},
    **{"tools": ([],), "tool_choice": ("none", "auto"), "top_logprobs": (0,)},
    # What the chat template is told
    **{"chat_template": (), "chat_template_kwargs": ({},), "documents": ([],)},
    **{"add_generation_prompt": (True,), "continue_final_message": (False,), "thinking": ()},
    **{"thinking_budget": (), "thinking_token_budget": (), "separate_reasoning": (True, False)},
    # vLLM, SGLang
    **{"guided_json": (), "guided_regex": ("",), "guided_choice": ([],), "guided_grammar": ("",)},
    **{"structured_outputs": (), "regex": ("",), "ebnf": ("",), "json_schema": ()},
    **{"grammar": ("",)},
    **{"stop_token_ids": ([],), "bad_words": ([],), "allowed_token_ids": ()},
    **{"use_beam_search": (False,), "num_beams": (1,), "prompt_logprobs": ()},
    **{"include_stop_str_in_output": (False,), "skip_special_tokens": (True,)},
    **{"truncate_prompt_tokens": (), "logits_processors": ([],), "lora_path": ()},
    # llama.cpp, Ollama, text-generation-webui and others: samplers and other names
    **{"typical_p": (1,), "typical": (1,), "tfs_z": (1,), "tfs": (1,), "top_a": (0,)},
    **{"mirostat": (0,), "mirostat_mode": (0,), "dry_multiplier": (0,), "xtc_probability": (0,)},
    **{"dynatemp_range": (0,), "smoothing_factor": (0,), "top_n_sigma": (-1, 0), "samplers": ()},
    **{"no_repeat_ngram_size": (0,), "repeat_penalty": (1,), "do_sample": (True,)},
    **{"max_new_tokens": (), "max_length": (), "n_predict": (), "num_predict": ()},
    **{"n_probs": (0,), "format": ("",), "options": ({},), "system": ("",)},
    **{"images": ([],), "extra_body": ({},)},
}
# What has the same effect here.
INSTEAD = {
    **dict.fromkeys(("max_new_tokens", "max_length", "n_predict", "num_predict"), "max_tokens"),
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice"), "response_format"),
    **dict.fromkeys(("guided_grammar", "structured_outputs", "regex", "ebnf"), "response_format"),
    **dict.fromkeys(("json_schema", "grammar", "format"), "response_format"),
    **{"repeat_penalty": "repetition_penalty", "do_sample": "temperature"},
    **{"functions": "tools", "function_call": "tool_choice", "n_probs": "logprobs"},
    **{"system": "a message with the role system", "options": "its fields beside the others"},
    **{"extra_body": "its fields beside the others", "top_logprobs": "logprobs"},
    **{"prompt": "messages, or ask at /v1/completions"},
    **{"messages": "prompt, or ask at /v1/chat/completions"},
    **{"input": "messages", "instructions": "messages"},
    **dict.fromkeys(("tools", "tool_choice"), "/v1/chat/completions"),
}


def check_absent(name: str, value: JsonValue, fields: JsonObject) -> None:
    """Checks a field that is not used.

    Args:
        fields: all of the request, without those that are null.

    Raises:
        UsageError: it would change the answer.
    """
    if name == "best_of":
        if not _same(value, fields.get("n", 1)) and not _same(value, 1):
            raise UsageError(
                f"best_of is {shortened(value)}, and the best of several texts cannot be chosen "
                "here; leave it out"
            )
    elif name in ABSENT and not any(_same(value, nothing) for nothing in ABSENT[name]):
        way_out = f"use {INSTEAD[name]}" if name in INSTEAD else "leave it out"
        raise UsageError(f"{name} is {shortened(value)}, which is not there; {way_out}")


def check_absent_of(
    absent: Mapping[str, Sequence[JsonValue]],
    fields: JsonObject,
    way_out: Mapping[str, str] | None = None,
) -> None:
    """Checks the fields of another interface that are not used there.

    Args:
        absent: their names, each with the values that ask for nothing.
        fields: of the request, without those that are null.
        way_out: what to do instead, where it is not to leave the field out.

    Raises:
        UsageError: one would change the answer.
    """
    for name, nothing in absent.items():
        if name in fields and not any(_same(fields[name], value) for value in nothing):
            instead = (way_out or {}).get(name, "leave it out")
            raise UsageError(f"{name} is {shortened(fields[name])}, which is not there; {instead}")


def _same(value: JsonValue, other: JsonValue) -> bool:
    """Equal in JSON, where true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other
