// Unigram: the pieces whose scores add up to the most.
#include <algorithm>
#include <limits>
#include <optional>

#include "text/word_model.h"

namespace edgespec {
namespace {

constexpr double kUnknownPenalty = 10;

class UnigramModel : public WordModel {
 public:
  UnigramModel(const Json& part, ModelTables tables)
      : WordModel(std::move(tables.vocabulary)),
        scores_(std::move(tables.scores)),
        falls_back_(flag_in(part, "byte_fallback", false)) {
    if (const auto found = part.find("unk_id"); found != part.end() && !found->is_null()) {
      unknown_ = found->get<int64_t>();
    }
    for (const double score : scores_) unknown_score_ = std::min(unknown_score_, score);
    unknown_score_ -= kUnknownPenalty;
  }

  void encode(std::string_view word, Tokens& tokens) const override {
    // A run of unknown pieces is one.
    std::vector<std::string_view> pieces;  // from the last to the first
    const std::vector<Best> best = paths(word);
    bool unknown_before = false;
    for (size_t end = word.size(); end > 0; end = best[end].begin) {
      const size_t begin = best[end].begin;
      const bool unknown = best[end].id == unknown_;
      if (unknown && unknown_before) {
        pieces.back() =
            word.substr(begin, pieces.back().data() + pieces.back().size() - word.data() - begin);
      } else {
        pieces.push_back(word.substr(begin, end - begin));
      }
      unknown_before = unknown;
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) append(*piece, tokens);
  }

 private:
  struct Best {
    int64_t id = TokenTable::kNone;
    double score = 0;
    size_t begin = kNowhere;
  };
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

  // For each end the piece that ends there, of the best path to it.
  std::vector<Best> paths(std::string_view word) const {
    std::vector<Best> best(word.size() + 1);
    const auto offer = [&](size_t begin, size_t end, int64_t id, double score) {
      Best& now = best[end];
      const double sum = score + best[begin].score;
      if (now.begin == kNowhere || sum > now.score) now = {id, sum, begin};
    };
    for (size_t begin = 0; begin < word.size();) {
      const size_t character = character_bytes(word.substr(begin));
      const size_t most = std::min(word.size() - begin, vocabulary().longest());
      bool has_character = false;
      TokenTable::Growing text(vocabulary());
      for (size_t bytes = 1; bytes <= most; ++bytes) {
        text.add(word[begin + bytes - 1]);
        const int64_t id = text.find(word.substr(begin, bytes));
        if (id == TokenTable::kNone) continue;
        offer(begin, begin + bytes, id, score_of(id));
        has_character = has_character || bytes == character;
      }
      if (!has_character) {
        check_unknown();
        offer(begin, begin + character, unknown_, unknown_score_);
      }
      begin += character;
    }
    return best;
  }

  double score_of(int64_t id) const {
    if (size_t(id) < scores_.size()) return scores_[id];
    throw Error("the tokenizer cannot encode this text (its vocabulary lacks scores)");
  }

  void append(std::string_view piece, Tokens& tokens) const {
    if (const int64_t id = vocabulary().find(piece); id != TokenTable::kNone) {
      tokens.push_back(id);
    } else if (!falls_back_ || !append_bytes(piece, tokens)) {
      check_unknown();
      tokens.push_back(unknown_);
    }
  }

  void check_unknown() const {
    if (unknown_ == TokenTable::kNone) {
      throw Error("the tokenizer cannot encode this text (it has no token for unknown characters)");
    }
  }

  std::vector<double> scores_;
  bool falls_back_;
  int64_t unknown_ = TokenTable::kNone;
  double unknown_score_ = std::numeric_limits<double>::max();
};

}  // namespace

std::unique_ptr<const WordModel> unigram_model(const Json& part, ModelTables tables) {
  return std::make_unique<UnigramModel>(part, std::move(tables));
}

}  // namespace edgespec
