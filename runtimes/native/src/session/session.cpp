#include "session/session.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/error.h"
#include "core/log_probability.h"
#include "core/shown.h"
#include "drafters/model_drafter.h"
#include "drafters/ngram_lookup.h"
#include "text/growing_text.h"
#include "text/message_text.h"

namespace edgespec {
namespace {

constexpr int kSeedBits = 53;  // a JSON reader that has only doubles reads no more

uint64_t new_seed() {
  std::random_device random;
  return (uint64_t(random()) << 32 | random()) >> (64 - kSeedBits);
}

// The rule that decides a text's tokens. Without a draft only the coupled rule's noise has a say.
RuleName rule_of(const Request& request) {
  if (request.rule != RuleName::kDefault) return request.rule;
  return request.sampling.greedy() ? RuleName::kToken : RuleName::kCoupled;
}

Rule function_of(RuleName rule) {
  if (rule == RuleName::kBlock) return block_rule;
  return rule == RuleName::kToken ? token_rule : coupled_rule;
}

void check_gamma(const Request& request, const Pair& pair) {
  const int64_t longest = pair.max_rows() - 1;
  if (request.gamma < 0) {
    throw UsageError("gamma is " + shown(request.gamma) + "; give a whole number from 0");
  }
  if (request.gamma > longest) {
    throw UsageError("gamma is " + shown(request.gamma) +
                     "; this target was found exact for at most " + shown(longest) +
                     " drafted tokens");
  }
}

bool holds(const Tokens& tokens, Token token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// The request with its checks done, and what follows from it filled in.
Request checked(Request request, const Pair& pair) {
  check(request.sampling);
  check(request.edits, pair.manifest().target.vocab_size);
  if (request.max_new_tokens < -1) {
    throw UsageError("max_new_tokens is " + shown(request.max_new_tokens) +
                     "; give a whole number from 0");
  }
  for (const Token token : request.stop_tokens) {
    if (0 <= token && token < pair.manifest().target.vocab_size) continue;
    throw UsageError("stop_tokens has the token " + shown(token) + "; this model's are 0 to " +
                     shown(pair.manifest().target.vocab_size - 1));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) throw UsageError("a stop string is empty; give at least one character");
    check_text(stop, "a stop string");
  }
  if (request.draft == DraftName::kModel && !pair.has_draft()) request.draft = DraftName::kLookup;
  if (request.draft != DraftName::kNone) {
    check_gamma(request, pair);
    pair.check_may_speculate();
  }
  if (!request.seed) request.seed = new_seed();
  return request;
}

}  // namespace

// Everything that a text is made of, and why it ended.
class Text {
 public:
  Text(Request request, const Pair& pair, OrtModel& target, OrtModel* draft)
      : request_(std::move(request)),
        eos_(request_.ignore_eos ? Tokens{} : pair.manifest().eos_token_ids),
        process_(pair.sampling(), request_.sampling),
        randomness_(randomness_of(pair)),
        edit_(request_.edits, repeated(pair), last_tokens()),
        score_(target, process_, request_.edits.none() ? nullptr : &edit_, request_.logprobs) {
    if (request_.text != TextForm::kNone || !request_.stop.empty()) {
      const bool alone = request_.text == TextForm::kAlone || pair.manifest().target.start_token;
      growing_.emplace(pair.tokenizer(), request_.stop, alone ? Tokens{} : request_.prompt);
    }
    const int64_t most = request_.max_new_tokens < 0 ? target.capacity() : request_.max_new_tokens;
    const Decoding how{target, request_.prompt,
                       score_, *randomness_,
                       most,   [this](Token token) { return ends(token); }};
    if (request_.draft == DraftName::kNone) {
      loop_ = std::make_unique<Plain>(how);
      return;
    }
    drafter_ = drafter_of(pair, draft);
    loop_ = std::make_unique<Speculative>(how, *drafter_, function_of(rule_of(request_)),
                                          request_.gamma, pair.sampling());
  }

  Piece next() {
    std::optional<Round> round = loop_->next();
    if (!round) {
      if (growing_) growing_->end(new_text_);
      return {{}, {}, ending(), std::exchange(new_text_, {})};
    }
    emitted_ += std::ssize(round->tokens);
    Piece piece{*std::move(round), {}, Ending::kNone, std::exchange(new_text_, {})};
    if (request_.logprobs) {
      for (const Token token : piece.round.tokens) {
        piece.logprobs.push_back(log_probability(score_.logits(std::ssize(piece.logprobs)), token));
      }
    }
    return piece;
  }

 private:
  std::unique_ptr<Randomness> randomness_of(const Pair& pair) const {
    if (rule_of(request_) != RuleName::kCoupled) {
      return std::make_unique<Seeded>(pair.sampling(), *request_.seed);
    }
    return std::make_unique<Coupled>(pair.sampling(), *request_.seed, std::ssize(request_.prompt));
  }
  std::unique_ptr<Drafter> drafter_of(const Pair& pair, OrtModel* draft) {
    if (request_.draft == DraftName::kLookup) return std::make_unique<NgramLookup>();
    return std::make_unique<ModelDrafter>(*draft, process_, pair.vocabulary(), last_tokens());
  }
  // The tokens that count as repeated; the source of an encoder-decoder is no repetition.
  Tokens repeated(const Pair& pair) const {
    return pair.manifest().target.start_token ? Tokens{} : request_.prompt;
  }
  Tokens last_tokens() const {
    Tokens last = eos_;
    last.insert(last.end(), request_.stop_tokens.begin(), request_.stop_tokens.end());
    return last;
  }
  bool ends(Token token) {
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
  Ending ending() const {
    if (last_ != Ending::kNone) return last_;
    if (growing_ && growing_->stopped()) return Ending::kStop;
    return emitted_ == request_.max_new_tokens ? Ending::kMaxTokens : Ending::kCapacity;
  }

  Request request_;
  Tokens eos_;
  SamplingProcessor process_;
  std::unique_ptr<Randomness> randomness_;
  LogitEdit edit_;
  Scoring score_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<Loop> loop_;
  std::optional<GrowingText> growing_;
  std::string new_text_;  // became final since the last piece
  int64_t emitted_ = 0;
  Ending last_ = Ending::kNone;  // by the last token
};

Session::Session(std::shared_ptr<const Pair> pair)
    : pair_(std::move(pair)), target_(pair_->make_target(cancelled_)) {}

Session::~Session() = default;

uint64_t Session::begin(Request request) {
  request = checked(std::move(request), *pair_);
  if (request.draft == DraftName::kModel && draft_ == nullptr) {
    draft_ = pair_->make_draft(*target_, cancelled_);
  }
  text_.reset();
  cancelled_ = false;
  const uint64_t seed = *request.seed;
  text_ = std::make_unique<Text>(std::move(request), *pair_, *target_, draft_.get());
  return seed;
}

Piece Session::next() {
  if (text_ == nullptr) throw UsageError("no text was begun in this session; begin one first");
  try {
    return text_->next();
  } catch (const Error&) {
    text_.reset();  // it cannot go on
    throw;
  }
}

}  // namespace edgespec
