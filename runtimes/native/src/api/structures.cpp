#include "api/structures.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "api/guarded.h"
#include "core/shown.h"

namespace edgespec {
namespace {

// Their sizes in the first edition.
constexpr size_t kFirstPiece = offsetof(edgespec_piece, text);
constexpr size_t kFirstSegment = sizeof(edgespec_segment);

// A caller's structure, with the defaults of the fields that its edition lacks.
template <typename Structure>
Structure whole(const Structure* given, void (*defaults)(Structure*), const char* name) {
  Structure all;
  defaults(&all);
  if (given == nullptr) return all;
  if (given->size < sizeof(size_t) || given->size > sizeof(Structure)) {
    throw UsageError(std::string(name) + " has the size " + shown(int64_t(given->size)) +
                     "; this library's has " + shown(int64_t(sizeof(Structure))) + " bytes");
  }
  std::memcpy(&all, given, given->size);
  return all;
}

// Throws UsageError: a structure that is filled in has less than its first edition.
template <typename Structure>
void check_size(const Structure& given, size_t least, const char* name) {
  if (given.size >= least) return;
  throw UsageError(std::string(name) + " has the size " + shown(int64_t(given.size)) +
                   "; this library's has " + shown(int64_t(sizeof(Structure))) + " bytes");
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

Sampling sampling_of(const edgespec_options& all) {
  return {.temperature = all.temperature,
          .top_k = all.top_k,
          .top_p = all.top_p,
          .min_p = all.min_p,
          .top_n_sigma = all.top_n_sigma,
          .xtc_probability = all.xtc_probability,
          .xtc_threshold = all.xtc_threshold};
}

LogitEdits edits_of(const edgespec_options& all) {
  LogitEdits edits{.repetition_penalty = all.repetition_penalty,
                   .presence_penalty = all.presence_penalty,
                   .frequency_penalty = all.frequency_penalty,
                   .logit_bias = {},
                   .min_tokens = all.min_tokens};
  if (all.logit_bias_count > 0) require(all.logit_bias, "logit_bias");
  for (size_t i = 0; i < all.logit_bias_count; ++i) {
    edits.logit_bias.emplace_back(all.logit_bias[i].token, all.logit_bias[i].bias);
  }
  return edits;
}

RuleName rule_of(int32_t rule) {
  switch (rule) {
    case EDGESPEC_RULE_DEFAULT:
      return RuleName::kDefault;
    case EDGESPEC_RULE_COUPLED:
      return RuleName::kCoupled;
    case EDGESPEC_RULE_TOKEN:
      return RuleName::kToken;
    case EDGESPEC_RULE_BLOCK:
      return RuleName::kBlock;
  }
  throw UsageError("rule is " + shown(int64_t(rule)) + "; give one of: 0 to 3");
}

DraftName draft_of(int32_t draft) {
  switch (draft) {
    case EDGESPEC_DRAFT_NONE:
      return DraftName::kNone;
    case EDGESPEC_DRAFT_MODEL:
      return DraftName::kModel;
    case EDGESPEC_DRAFT_LOOKUP:
      return DraftName::kLookup;
    case EDGESPEC_DRAFT_BOTH:
      return DraftName::kBoth;
  }
  throw UsageError("draft is " + shown(int64_t(draft)) + "; give one of: 0 to 3");
}

int32_t ending_of(Ending ending) {
  switch (ending) {
    case Ending::kNone:
      return EDGESPEC_GOES_ON;
    case Ending::kEos:
      return EDGESPEC_END_OF_TEXT;
    case Ending::kStop:
      return EDGESPEC_STOPPED;
    case Ending::kMaxTokens:
      return EDGESPEC_MAX_TOKENS;
    case Ending::kCapacity:
      return EDGESPEC_FULL;
  }
  return EDGESPEC_GOES_ON;
}

}  // namespace

LoadOptions load_options_of(const edgespec_load_options* given) {
  const auto all = whole(given, edgespec_load_options_defaults, "edgespec_load_options");
  return {.onnxruntime = text_of(all.onnxruntime),
          .target_format = text_of(all.target_format),
          .draft_format = text_of(all.draft_format),
          .threads = all.threads,
          .capacity = all.capacity,
          .allow_inexact = all.allow_inexact != 0};
}

Tokens tokens_of(const int64_t* tokens, size_t count) {
  if (count > 0) require(tokens, "tokens");
  return Tokens(tokens, tokens + count);
}

std::vector<Message> messages_of(const edgespec_turn* turns, size_t count) {
  if (count > 0) require(turns, "turns");
  std::vector<Message> messages;
  for (size_t i = 0; i < count; ++i) {
    require(turns[i].role, "role");
    require(turns[i].content, "content");
    // No format that is known here tells a developer from the system.
    const std::string role = turns[i].role;
    messages.push_back({role == "developer" ? "system" : role, turns[i].content});
  }
  return messages;
}

Request request_of(Tokens prompt, const edgespec_options* given) {
  const auto all = whole(given, edgespec_options_defaults, "edgespec_options");
  if (all.stop_tokens_count > 0) require(all.stop_tokens, "stop_tokens");
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = sampling_of(all);
  request.edits = edits_of(all);
  request.stop_tokens.assign(all.stop_tokens, all.stop_tokens + all.stop_tokens_count);
  if (all.stop_count > 0) require(all.stop, "stop");
  for (size_t i = 0; i < all.stop_count; ++i) {
    require(all.stop[i], "stop");
    request.stop.emplace_back(all.stop[i]);
  }
  if (all.answers != nullptr) {
    request.answers.emplace();
    for (size_t i = 0; i < all.answers_count; ++i) {
      request.answers->push_back({all.answers[i].begin, all.answers[i].end});
    }
  } else if (all.answers_count > 0) {
    require(all.answers, "answers");
  }
  request.ignore_eos = all.ignore_eos != 0;
  request.max_new_tokens = all.max_new_tokens;
  if (all.has_seed != 0) request.seed = all.seed;
  request.logprobs = all.logprobs != 0;
  request.draft = draft_of(all.draft);
  request.gamma = all.gamma;
  request.rule = rule_of(all.rule);
  return request;
}

Request text_request(const Pair& pair, const char* prompt, const edgespec_options* given) {
  Request request = request_of(pair.text_prompt(prompt), given);
  request.text = TextForm::kGoesOn;
  return request;
}

TranscriptOptions transcript_options_of(const edgespec_transcript_options* given) {
  const auto all =
      whole(given, edgespec_transcript_options_defaults, "edgespec_transcript_options");
  TranscriptOptions options{.language = text_of(all.language),
                            .translate = all.translate != 0,
                            .timestamps = all.timestamps != 0,
                            .use_previous = all.use_previous != 0,
                            .prompt = text_of(all.prompt),
                            .no_speech = all.no_speech,
                            .min_logprob = all.min_logprob,
                            .max_compression = all.max_compression};
  if (all.temperatures != nullptr) {
    options.temperatures.assign(all.temperatures, all.temperatures + all.temperatures_count);
  } else if (all.temperatures_count > 0) {
    require(all.temperatures, "temperatures");
  }
  return options;
}

Request drafting_request(const edgespec_transcript_options* given) {
  const auto all =
      whole(given, edgespec_transcript_options_defaults, "edgespec_transcript_options");
  Request request;
  request.draft = draft_of(all.draft);
  request.gamma = all.gamma;
  request.seed = all.seed;
  return request;
}

Request chat_request(const Pair& pair, const edgespec_turn* turns, size_t count,
                     const edgespec_options* given) {
  Prompt prompt = pair.chat_prompt(messages_of(turns, count));
  Request request = request_of(std::move(prompt.tokens), given);
  request.answers = std::move(prompt.answers);
  request.text = TextForm::kAlone;
  return request;
}

void fill(edgespec_memory* memory, const MemoryEstimate& estimate) {
  check_size(*memory, sizeof *memory, "edgespec_memory");
  memory->weights = estimate.weights;
  memory->caches = estimate.caches;
}

void check_size(const edgespec_piece& piece) { check_size(piece, kFirstPiece, "edgespec_piece"); }

void check_size(const edgespec_segment& segment) {
  check_size(segment, kFirstSegment, "edgespec_segment");
}

void fill(edgespec_piece* piece, const Piece& made) {
  const Round& round = made.round;
  const edgespec_piece whole = {.size = piece->size,
                                .tokens = round.tokens.data(),
                                .count = round.tokens.size(),
                                .drafted = round.drafted,
                                .evaluated = round.evaluated,
                                .accepted = round.accepted,
                                .ending = ending_of(made.ending),
                                .logprobs = made.logprobs.empty() ? nullptr : made.logprobs.data(),
                                .text = made.text.c_str(),
                                .text_bytes = made.text.size()};
  std::memcpy(piece, &whole, std::min(piece->size, sizeof whole));
}

void fill(edgespec_segment* segment, const TranscriptPiece& made) {
  edgespec_segment whole = {};
  whole.size = segment->size;
  whole.text = "";
  if (const auto& found = made.segment) {
    whole.start = found->start;
    whole.end = found->end;
    whole.text = found->text.c_str();
    whole.text_bytes = found->text.size();
    whole.tokens = found->tokens.data();
    whole.count = found->tokens.size();
    whole.temperature = found->temperature;
    whole.logprob = found->logprob;
    whole.compression = found->compression;
    whole.no_speech = found->no_speech;
  }
  whole.language = made.progress.language.c_str();
  whole.language_probability = made.progress.language_probability;
  whole.seconds = made.progress.seconds;
  whole.calls = made.counts.rounds;
  whole.drafted = made.counts.drafted;
  whole.accepted = made.counts.accepted;
  whole.ended = made.segment ? 0 : 1;
  std::memcpy(segment, &whole, std::min(segment->size, sizeof whole));
}

}  // namespace edgespec

extern "C" {

void edgespec_load_options_defaults(edgespec_load_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->size = sizeof *options;
}

void edgespec_transcript_options_defaults(edgespec_transcript_options* options) {
  if (options == nullptr) return;
  const edgespec::TranscriptOptions usual;
  *options = {};
  options->size = sizeof *options;
  options->timestamps = usual.timestamps ? 1 : 0;
  options->no_speech = usual.no_speech;
  options->min_logprob = usual.min_logprob;
  options->max_compression = usual.max_compression;
  options->draft = EDGESPEC_DRAFT_BOTH;
  options->gamma = edgespec::kGammaAuto;
}

void edgespec_options_defaults(edgespec_options* options) {
  if (options == nullptr) return;
  const edgespec::Sampling sampling;
  const edgespec::LogitEdits edits;
  const edgespec::Request request;
  *options = {};
  options->size = sizeof *options;
  options->top_p = sampling.top_p;
  options->xtc_threshold = sampling.xtc_threshold;
  options->repetition_penalty = edits.repetition_penalty;
  options->max_new_tokens = request.max_new_tokens;
  options->draft = EDGESPEC_DRAFT_BOTH;
  options->gamma = request.gamma;
}
}
