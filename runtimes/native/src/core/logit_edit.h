// Changes of logits by the text so far: penalties, biases, a least length.
//
// They are part of the target's distribution: every verified row is changed by the tokens before
// it, accepted ones and drafted ones, as plain decoding would change it.
#pragma once

#include <vector>

#include "core/model.h"
#include "core/options.h"
#include "core/row_edit.h"

namespace edgespec {

// The changes of one text's rows.
class LogitEdit : public RowEdit {
 public:
  // `prompt`: tokens that count as repeated, too. `last_tokens`: those that end a text.
  LogitEdit(const LogitEdits& edits, Tokens prompt, Tokens last_tokens);

  Row operator()(Row logits, const Tokens& generated) override;

 private:
  void penalize(const Tokens& generated);

  LogitEdits edits_;
  Tokens prompt_;
  Tokens last_tokens_;
  std::vector<float> edited_;
};

}  // namespace edgespec
