#include "session/text.h"

#include <algorithm>
#include <utility>

#include "core/log_probability.h"

namespace edgespec {
namespace {

Rule function_of(RuleName rule) {
  if (rule == RuleName::kBlock) return block_rule;
  return rule == RuleName::kToken ? token_rule : coupled_rule;
}

bool holds(const Tokens& tokens, Token token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

Text::Text(Request request, const Pair& pair, Model& target, Model* draft, CostClock& clock)
    : request_(std::move(request)),
      pair_(pair),
      target_(target),
      eos_(request_.ignore_eos ? Tokens{} : pair.manifest().eos_token_ids),
      process_(pair.sampling(), request_.sampling),
      randomness_(randomness()),
      edit_(request_.edits, repeated(), last_tokens()),
      score_(target, process_, request_.edits.none() ? nullptr : &edit_, request_.logprobs),
      drafting_(drafting_of({request_, pair, target, draft, process_, last_tokens(), clock})) {
  if (request_.text != TextForm::kNone || !request_.stop.empty()) {
    const bool alone = request_.text == TextForm::kAlone || pair.manifest().target.start_token;
    growing_.emplace(pair.tokenizer(), request_.stop, alone ? Tokens{} : request_.prompt);
  }
}

Requests<int64_t> Text::begin() {
  make_loop(std::nullopt);
  return loop_->begin();
}

Requests<Piece> Text::next() {
  std::optional<Round> round = co_await loop_->next();
  if (!round) {
    has_ended_ = true;
    if (growing_) growing_->end(new_text_);
    co_return Piece{{}, {}, ending(), std::exchange(new_text_, {})};
  }
  Piece piece{*std::move(round), {}, Ending::kNone, std::exchange(new_text_, {})};
  if (request_.logprobs) {
    const auto& [tokens, rows, drafted, evaluated, accepted] = piece.round;
    for (size_t i = 0; i < tokens.size(); ++i) {
      piece.logprobs.push_back(log_probability(score_.logits(rows[i]), tokens[i]));
    }
  }
  co_return piece;
}

void Text::archive(Archive& archive) {
  Made made = loop_ ? loop_->made() : Made{};
  archive(made.sequence, made.left, made.refusal, has_ended_);
  archive.choice(last_, Ending::kCapacity);
  if (archive.reads()) resume(archive, made);
  if (!drafting_.drafter) return;
  drafting_.drafter->archive(archive, made.sequence);
  drafting_.gamma->archive(archive);
}

void Text::resume(const Archive& archive, Made made) {
  const auto& [sequence, left, _] = made;
  const auto start = pair_.manifest().target.start_token;
  const auto are_tokens = [&](const Tokens& tokens, int64_t size) {
    return std::ranges::all_of(tokens, [&](Token token) { return 0 <= token && token < size; });
  };
  archive.check(!request_.prompt.empty() && !sequence.empty());
  archive.check(are_tokens(request_.prompt, pair_.manifest().target.read_tokens));
  archive.check(are_tokens(sequence, target_.vocab_size()) || sequence.size() == 1);
  archive.check(sequence[0] == start.value_or(request_.prompt.back()));
  const int64_t read = start ? 0 : std::ssize(request_.prompt) - 1;
  archive.check(target_.length() == read + std::ssize(sequence) - 1);
  archive.check(left <= target_.capacity() - target_.length());
  if (growing_) {  // what its text was, the caller knows
    std::string known;
    for (size_t i = 1; i < sequence.size(); ++i) growing_->add(sequence[i], known);
    if (has_ended_) growing_->end(known);
  }
  if (drafting_.drafter) drafting_.drafter->begin(request_.prompt);
  make_loop(std::move(made));
}

Decoding Text::decoding() {
  const int64_t most = request_.max_new_tokens < 0 ? target_.capacity() : request_.max_new_tokens;
  return {
      target_, request_.prompt, request_.answers, score_, *randomness_, most, [this](Token token) {
        return ends(token);
      }};
}

void Text::make_loop(std::optional<Made> made) {
  const auto make = [&]<typename Kind>(auto&... rest) -> std::unique_ptr<Loop> {
    if (!made) return std::make_unique<Kind>(decoding(), rest...);
    return std::make_unique<Kind>(decoding(), *std::move(made), rest...);
  };
  if (!drafting_.drafter) {
    loop_ = make.operator()<Plain>();
    return;
  }
  const Rule rule = function_of(rule_of(request_));
  loop_ =
      make.operator()<Speculative>(*drafting_.drafter, rule, *drafting_.gamma, pair_.sampling());
}

std::unique_ptr<Randomness> Text::randomness() const {
  if (rule_of(request_) != RuleName::kCoupled) {
    return std::make_unique<Seeded>(pair_.sampling(), *request_.seed);
  }
  return std::make_unique<Coupled>(pair_.sampling(), *request_.seed, std::ssize(request_.prompt));
}

// The tokens that count as repeated; the source of an encoder-decoder is no repetition.
Tokens Text::repeated() const {
  return pair_.manifest().target.start_token ? Tokens{} : request_.prompt;
}

Tokens Text::last_tokens() const {
  Tokens last = eos_;
  last.insert(last.end(), request_.stop_tokens.begin(), request_.stop_tokens.end());
  return last;
}

bool Text::ends(Token token) {
  if (growing_) growing_->add(token, new_text_);
  if (holds(eos_, token)) {
    last_ = Ending::kEos;
  } else if (holds(request_.stop_tokens, token)) {
    last_ = Ending::kStop;
  } else if (growing_ && growing_->stopped()) {
    last_ = Ending::kStop;
  }
  return last_ != Ending::kNone;
}

Ending Text::ending() const {
  if (last_ != Ending::kNone) return last_;
  if (growing_ && growing_->stopped()) return Ending::kStop;
  const int64_t emitted = std::ssize(loop_->made().sequence) - 1;
  return emitted == request_.max_new_tokens ? Ending::kMaxTokens : Ending::kCapacity;
}

}  // namespace edgespec
