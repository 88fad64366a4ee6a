// Which tokens may come next in a transcript: suppressed tokens, and the order of timestamps.
//
// The rules of Whisper's own decoder (Radford et al. 2022, section 4.5) as a function of a row and
// of the tokens before it. They are part of the target's distribution p: every row that is verified
// is changed, by the tokens before it. The draft's q is changed by the same rules, so that it
// proposes nothing that p excludes.
#pragma once

#include <vector>

#include "artifact/speech_format.h"
#include "core/row_edit.h"
#include "kernels/sampling.h"

namespace edgespec {

// The rules for the text of one window. Segments are a timestamp, text and a timestamp; timestamps
// do not go back.
class TokenRules : public RowEdit {
 public:
  // `timestamps`: the text has some; otherwise none may come. `speech` must outlive it.
  TokenRules(const SpeechFormat& speech, bool timestamps, const SamplingTable& kernels)
      : speech_(speech), timestamps_(timestamps), kernels_(kernels) {}

  // The row, where tokens that may not come have -∞.
  Row operator()(Row logits, const Tokens& generated) override;

 private:
  // Excludes tokens begin … end - 1; those up to the vocabulary's end.
  void exclude(Token begin, Token end);
  void exclude_from(Token begin) { exclude(begin, std::ssize(edited_)); }
  void order_timestamps(const Tokens& generated);
  // A timestamp comes if all of them together are more probable than any other token.
  void prefer_timestamp();

  const SpeechFormat& speech_;
  bool timestamps_;
  const SamplingTable& kernels_;
  std::vector<float> edited_;
};

}  // namespace edgespec
