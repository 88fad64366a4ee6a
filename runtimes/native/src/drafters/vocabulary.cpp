#include "drafters/vocabulary.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/paths.h"
#include "core/shown.h"
#include "core/whole_numbers.h"
#include "drafters/token_intersection.h"

namespace edgespec {
namespace {

// Both models use the same token ids; one of them may have more.
class SharedTokens : public Vocabulary {
 public:
  // `width`: tokens that both have.
  explicit SharedTokens(int64_t width) : width_(width) {}

  Tokens to_draft(std::span<const Token> tokens) const override {
    Tokens ids(tokens.size());
    std::ranges::transform(tokens, ids.begin(), [&](Token token) { return to_target(token); });
    return ids;
  }
  Token to_target(Token token) const override { return token < width_ ? token : 0; }
  Distribution distribution(SamplingProcessor& process, Row logits) const override {
    return process(logits.first(std::min<size_t>(width_, logits.size())));
  }
  bool covers(int64_t size) const override { return size <= width_; }

 private:
  int64_t width_;
};

// The draft has some of the target's tokens, under its own ids.
class SomeTokens : public Vocabulary {
 public:
  // `outputs`: the target's id of each draft token, increasing. `inputs`: what the draft, which
  // reads `read_tokens`, reads for each token of the target.
  SomeTokens(Tokens outputs, Tokens inputs, int64_t read_tokens)
      : outputs_(std::make_shared<const Tokens>(std::move(outputs))), inputs_(std::move(inputs)) {
    if (outputs_->empty() || outputs_->front() < 0 ||
        !std::ranges::is_sorted(*outputs_, std::ranges::less_equal())) {
      throw std::runtime_error("outputs do not increase");
    }
    if (outputs_->back() >= std::ssize(inputs_)) {
      throw std::runtime_error("outputs name tokens that the target lacks");
    }
    const auto [least, most] = std::ranges::minmax(inputs_);
    if (least < 0 || most >= read_tokens) {
      throw std::runtime_error("inputs name tokens that the draft lacks");
    }
  }

  Tokens to_draft(std::span<const Token> tokens) const override {
    Tokens ids(tokens.size());
    std::ranges::transform(tokens, ids.begin(), [&](Token token) { return inputs_[token]; });
    return ids;
  }
  Token to_target(Token token) const override { return (*outputs_)[token]; }
  Distribution distribution(SamplingProcessor& process, Row logits) const override {
    Distribution q = process(logits);
    if (q.size() == std::ssize(*outputs_)) {
      q.tokens = outputs_;
      return q;
    }
    Tokens tokens(q.tokens->size());
    std::ranges::transform(*q.tokens, tokens.begin(),
                           [&](Token token) { return to_target(token); });
    q.tokens = std::make_shared<const Tokens>(std::move(tokens));
    return q;
  }
  bool covers(int64_t size) const override { return size == std::ssize(*outputs_); }

 private:
  std::shared_ptr<const Tokens> outputs_;
  Tokens inputs_;
};

}  // namespace

std::unique_ptr<Vocabulary> open_vocabulary(const Manifest& manifest) {
  const Exported &target = manifest.target, &draft = *manifest.draft;
  if (draft.vocabulary.empty()) {
    return std::make_unique<SharedTokens>(std::min(target.vocab_size, draft.vocab_size));
  }
  const std::filesystem::path path = manifest.folder / path_of(draft.vocabulary);
  const std::string file = name_of(path);
  nlohmann::json maps;
  std::unique_ptr<Vocabulary> vocabulary;
  int64_t inputs = 0, outputs = 0;
  try {
    maps = parsed<nlohmann::json>(std::ifstream(path));
    if (maps.contains("common")) {
      auto spellings = maps.at("spellings").get<std::vector<Tokens>>();
      inputs = std::ssize(spellings);
      outputs = draft.vocab_size;
      const auto& common = maps.at("common");
      vocabulary = std::make_unique<TokenIntersection>(
          common.at(0).get<Tokens>(), common.at(1).get<Tokens>(), std::move(spellings),
          maps.at("begin").get<Tokens>(), draft.vocab_size);
    } else {
      inputs = std::ssize(maps.at("inputs"));
      outputs = std::ssize(maps.at("outputs"));
      vocabulary = std::make_unique<SomeTokens>(maps.at("outputs").get<Tokens>(),
                                                maps.at("inputs").get<Tokens>(), draft.read_tokens);
    }
  } catch (const std::exception& error) {
    throw Error(file + " is damaged (" + error.what() + "); make the draft again");
  }
  if (inputs == target.vocab_size && outputs == draft.vocab_size) return vocabulary;
  throw Error(file + " is for a target of " + shown(inputs) + " and a draft of " + shown(outputs) +
              " tokens, and these have " + shown(target.vocab_size) + " and " +
              shown(draft.vocab_size) + "; pair the draft with its own target");
}

}  // namespace edgespec
