// Whether the draft model runs for a window of sound: it does where it was faster.
//
// A draft of a speech model has an encoder of its own, which reads every window in which it drafts.
// Whether drafting is worth that is known from the clock alone: it depends on both models, their
// formats, the machine and how long the windows' texts are.
#pragma once

#include <array>
#include <cstdint>

namespace edgespec {

// Chooses by the seconds that a token took, with and without the draft model.
//
// The first window is decoded without it, the second with it, the others as was faster. Where the
// two are near, the other way is tried again now and then; where one way grows slow, as when
// another program starts, they come near. No text depends on it.
class WindowDrafting {
 public:
  // Whether the draft model runs for the next window.
  bool drafts() const;
  // Adds a window's time, the draft's encoder included and the target's not.
  void count(bool drafted, double seconds, int64_t tokens);

 private:
  struct Way {
    double seconds = 0, tokens = 0;
  };

  std::array<Way, 2> ways_;  // without the draft, and with it
  int64_t windows_ = 0;
};

}  // namespace edgespec
