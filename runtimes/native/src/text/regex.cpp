#include "text/regex.h"

#include <algorithm>

#include "core/error.h"

namespace edgespec {
namespace {

using Kind = RegexNode::Kind;
constexpr size_t kMostSteps = 100'000;

bool is_word(std::u32string_view text, size_t at) {
  return at < text.size() && has(Property::kWord, text[at]);
}

}  // namespace

Regex::Regex(std::u32string_view pattern) {
  emit(parsed_regex(pattern));
  add({Op::kMatch});
}

Regex Regex::of_text(std::u32string_view text) {
  Regex made;
  for (const char32_t character : text) {
    RegexNode one{Kind::kSet, {}, {}};
    one.set.add_range(character, character);
    one.set.finish();
    made.emit(one);
  }
  made.add({Op::kMatch});
  return made;
}

size_t Regex::add(Step step) {
  if (steps_.size() >= kMostSteps) throw Error("a regular expression that is too long");
  steps_.push_back(step);
  return steps_.size() - 1;
}

void Regex::emit(const RegexNode& node) {
  switch (node.kind) {
    case Kind::kSet:
      add({Op::kSet, int(sets_.size())});
      sets_.push_back(node.set);
      break;
    case Kind::kSequence:
      for (const RegexNode& part : node.parts) emit(part);
      break;
    case Kind::kAlternatives: {
      std::vector<size_t> jumps;
      for (size_t i = 0; i + 1 < node.parts.size(); ++i) {
        const size_t split = add({Op::kSplit, end() + 1});
        emit(node.parts[i]);
        jumps.push_back(add({Op::kJump}));
        steps_[split].b = end();
      }
      emit(node.parts.back());
      for (const size_t jump : jumps) steps_[jump].a = end();
      break;
    }
    case Kind::kRepeat:
      emit_repeat(node);
      break;
    case Kind::kAtomic:
      emit_inner({Op::kAtomic}, node.parts[0]);
      break;
    case Kind::kLookAhead:
      emit_inner({.op = Op::kAhead, .negated = node.negated}, node.parts[0]);
      break;
    case Kind::kLookBehind:
      emit_look_behind(node);
      break;
    case Kind::kLineBegin:
      add({Op::kLineBegin});
      break;
    case Kind::kLineEnd:
      add({Op::kLineEnd});
      break;
    case Kind::kTextBegin:
      add({Op::kTextBegin});
      break;
    case Kind::kTextEnd:
      add({Op::kTextEnd});
      break;
    case Kind::kWordBorder:
      add({.op = Op::kWordBorder, .negated = node.negated});
      break;
  }
}

void Regex::emit_repeat(const RegexNode& node) {
  const RegexNode& part = node.parts[0];
  if (part.kind == Kind::kSet && !node.lazy) {
    add({.op = Op::kRepeat, .a = int(sets_.size()), .least = node.least, .most = node.most});
    sets_.push_back(part.set);
    return;
  }
  for (int i = 0; i < node.least; ++i) emit(part);
  // Each further one is tried, or, if lazy, first left out.
  const auto split = [&] { return add({Op::kSplit}); };
  const auto set_ways = [&](size_t at, int into, int past) {
    steps_[at].a = node.lazy ? past : into;
    steps_[at].b = node.lazy ? into : past;
  };
  if (node.most == RegexNode::kUnbounded) {
    const size_t loop = split();
    emit(part);
    add({Op::kJump, int(loop)});
    set_ways(loop, int(loop) + 1, end());
    return;
  }
  std::vector<size_t> splits;
  for (int i = node.least; i < node.most; ++i) {
    splits.push_back(split());
    emit(part);
  }
  for (const size_t at : splits) set_ways(at, int(at) + 1, end());
}

void Regex::emit_look_behind(const RegexNode& node) {
  // Each alternative has one length. None of several may match, or one must.
  const RegexNode& inner = node.parts[0];
  if (inner.kind != Kind::kAlternatives) {
    return emit_inner({.op = Op::kBehind, .least = inner.longest(), .negated = node.negated},
                      inner);
  }
  RegexNode each{node.negated ? Kind::kSequence : Kind::kAlternatives, {}, {}};
  for (const RegexNode& part : inner.parts) {
    RegexNode one{Kind::kLookBehind, {part}, {}};
    one.negated = node.negated;
    each.parts.push_back(std::move(one));
  }
  emit(each);
}

void Regex::emit_inner(Step step, const RegexNode& node) {
  const size_t begin = add(step);
  emit(node);
  add({Op::kMatch});
  steps_[begin].a = end();
}

bool Regex::stands(const Step& step, int next, std::u32string_view text, size_t at) const {
  switch (step.op) {
    case Op::kAhead:
      return run(next, text, at).has_value();
    case Op::kBehind:
      return at >= size_t(step.least) && run(next, text, at - step.least) == at;
    case Op::kLineBegin:
      return at == 0 || (text[at - 1] == '\n' && at < text.size());
    case Op::kLineEnd:
      return at == text.size() || text[at] == '\n';
    case Op::kTextBegin:
      return at == 0;
    case Op::kTextEnd:
      return at == text.size();
    default:
      return is_word(text, at) != (at > 0 && is_word(text, at - 1));
  }
}

// The end of the match that begins here, if there is one.
std::optional<size_t> Regex::run(int step, std::u32string_view text, size_t at) const {
  struct Way {
    int step;
    size_t at, least;  // it may also go on at fewer characters, down to `least`
  };
  std::vector<Way> back;
  while (true) {
    const Step& now = steps_[step];
    bool goes_on = true;
    switch (now.op) {
      case Op::kMatch:
        return at;
      case Op::kSet:
        goes_on = at < text.size() && sets_[now.a].has(text[at]);
        ++at, ++step;
        break;
      case Op::kRepeat: {
        const size_t begin = at;
        const CharacterSet& set = sets_[now.a];
        const size_t room = text.size() - at;
        const size_t most = begin + std::min<size_t>(room, now.most);
        while (at < most && set.has(text[at])) ++at;
        goes_on = at >= begin + now.least;
        ++step;
        if (at > begin + now.least) back.push_back({step, at - 1, begin + now.least});
        break;
      }
      case Op::kSplit:
        back.push_back({now.b, at, at});
        step = now.a;
        break;
      case Op::kJump:
        step = now.a;
        break;
      case Op::kAtomic:
        if (const auto end = run(step + 1, text, at)) {
          at = *end;
        } else {
          goes_on = false;
        }
        step = now.a;
        break;
      default:
        goes_on = stands(now, step + 1, text, at) != now.negated;
        step = now.op == Op::kAhead || now.op == Op::kBehind ? now.a : step + 1;
    }
    if (goes_on) continue;
    if (back.empty()) return std::nullopt;
    Way& way = back.back();
    step = way.step, at = way.at;
    if (way.at > way.least) {
      --way.at;
    } else {
      back.pop_back();
    }
  }
}

std::vector<Span> Regex::matches(std::u32string_view text) const {
  std::vector<Span> found;
  for (size_t at = 0; at <= text.size();) {
    const auto end = run(0, text, at);
    const bool is_after_match = !found.empty() && found.back().end == at;
    if (!end || (*end == at && is_after_match)) {
      ++at;
      continue;
    }
    found.push_back({at, *end});
    at = *end;
    if (found.back().begin == *end) ++at;
  }
  return found;
}

}  // namespace edgespec
