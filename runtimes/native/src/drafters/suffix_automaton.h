// Every substring of a text that grows token by token, with what followed it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/distribution.h"

namespace edgespec {

// The smallest automaton that accepts the substrings of a text (Blumer et al. 1985).
//
// A state stands for substrings that end at the same indices. The link of the whole text's state
// leads to its longest suffix that occurred before, and each further link to shorter ones. A token
// takes O(log n), amortized, and changes the counts of the 32 longest substrings that end with it:
// without this limit, a text that repeats one token would take O(n) a token.
// edgespec/drafters/suffix_automaton.py has the same counts.
class SuffixAutomaton {
 public:
  // A suffix of the text that occurred before; of no tokens in state 0.
  struct Suffix {
    int64_t length;
    int32_t state;
  };

  // The most frequent token after a state's substrings: how often it followed, of how many tokens
  // that did, and the state after it.
  struct Continuation {
    Token token;
    int64_t times, total;
    int32_t after;
  };

  // `most`: tokens that it holds; when there are more, it forgets the older half.
  explicit SuffixAutomaton(int64_t most) : most_(most) {}

  void append(Token token);
  Suffix longest_suffix() const { return suffix_of(states_[last_].link); }
  // The next shorter one that occurs elsewhere.
  Suffix shorter(const Suffix& suffix) const { return suffix_of(states_[suffix.state].link); }
  // Of equal tokens, the latest; none where nothing followed, or too much to say what comes next.
  std::optional<Continuation> best(int32_t state) const;

 private:
  struct State {
    int32_t length = 0;  // of the longest substring
    int32_t link = -1;   // state 0, the empty one, has none
    int32_t count = 0;   // occurrences
    int32_t latest = 0;  // where the substrings ended last
    std::map<Token, int32_t> next = {};
  };

  Suffix suffix_of(int32_t state) const {
    return state > 0 ? Suffix{states_[state].length, state} : Suffix{0, 0};
  }
  void forget_older_half();
  int32_t add(State state);
  int32_t state_of(int32_t state, Token token);
  void count(int32_t state);

  int64_t most_;
  Tokens tokens_;
  std::vector<State> states_ = {{}};
  int32_t last_ = 0;  // the state of the whole text
};

}  // namespace edgespec
