// How many characters a part of a regular expression matches.
#include <algorithm>
#include <cstdint>

#include "text/regex_parser.h"

namespace edgespec {
namespace {

using Kind = RegexNode::Kind;

int times(int length, int count) {
  if (length == 0 || count == 0) return 0;
  const bool is_bounded = length < RegexNode::kUnbounded / count && count != RegexNode::kUnbounded;
  return is_bounded ? length * count : RegexNode::kUnbounded;
}

int length_of(const RegexNode& part, int (RegexNode::*length)() const, bool longest) {
  switch (part.kind) {
    case Kind::kSet:
      return 1;
    case Kind::kRepeat:
      return times((part.parts[0].*length)(), longest ? part.most : part.least);
    case Kind::kAtomic:
      return (part.parts[0].*length)();
    case Kind::kSequence: {
      int64_t sum = 0;
      for (const RegexNode& one : part.parts) sum += (one.*length)();
      return int(std::min<int64_t>(sum, RegexNode::kUnbounded));
    }
    case Kind::kAlternatives: {
      int found = (part.parts[0].*length)();
      for (const RegexNode& one : part.parts) {
        const int other = (one.*length)();
        found = longest ? std::max(found, other) : std::min(found, other);
      }
      return found;
    }
    default:
      return 0;
  }
}

}  // namespace

int RegexNode::shortest() const { return length_of(*this, &RegexNode::shortest, false); }
int RegexNode::longest() const { return length_of(*this, &RegexNode::longest, true); }

}  // namespace edgespec
