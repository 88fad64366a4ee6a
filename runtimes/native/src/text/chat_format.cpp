#include "text/chat_format.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"
#include "text/dated.h"
#include "text/message_text.h"
#include "text/utf8.h"

namespace edgespec {
namespace {

constexpr size_t kShownRoles = 6;

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// What is unusual in a message's text, so that a template may treat it in its own way.
std::vector<std::string> kinds_of(const std::string& content) {
  std::vector<std::string> kinds;
  const std::string bare = trimmed(content);
  if (bare.empty()) kinds.push_back("empty");
  if (bare != content) kinds.push_back("spaces");
  for (const char* mark : {"<think>", "</think>"}) {
    if (content.find(mark) != std::string::npos) kinds.push_back("thinking");
  }
  return kinds;
}

void check_message(const ChatFormat& format, const Message& message, size_t number,
                   const std::string& after) {
  const std::string name = "message " + shown(int64_t(number));
  if (message.role != "system" && message.role != "user" && message.role != "assistant") {
    throw UsageError(name + " has the role " + shown(std::string_view(message.role)) +
                     "; give one of: system, user, assistant");
  }
  if (!message.content.empty()) check_text(message.content, name);
  for (const std::string& kind : kinds_of(message.content)) {
    if (!holds(format.odd, after + message.role + ":" + kind)) continue;
    throw UsageError(name + " has a text (" + kind +
                     ") that only the model's own template writes; change it, or ask from Python");
  }
}

// Throws UsageError where messages are no system prompt and turns.
void check_turns(const ChatFormat& format, const std::vector<Message>& messages) {
  const bool has_system = !messages.empty() && messages[0].role == "system";
  for (size_t i = 0; i < messages.size(); ++i) {
    check_message(format, messages[i], i + 1, has_system && i > 0 ? "system+" : "");
  }
  const size_t begin = has_system ? 1 : 0;
  bool in_turns = (messages.size() - begin) % 2 == 1;
  for (size_t i = begin; i < messages.size(); ++i) {
    in_turns = in_turns && messages[i].role == ((i - begin) % 2 == 0 ? "user" : "assistant");
  }
  if (!in_turns) {
    std::string roles;
    for (size_t i = 0; i < std::min(kShownRoles, messages.size()); ++i) {
      roles += (i == 0 ? "" : ", ") + messages[i].role;
    }
    if (messages.size() > kShownRoles) roles += ", …";
    throw UsageError("the messages' roles are " + (roles.empty() ? "none" : roles) +
                     "; give perhaps a system message, then user and assistant in turns, and a "
                     "user's last");
  }
  if (has_system && (!format.system || !format.after_system)) {
    throw UsageError(
        "this model's chat format takes no system prompt; say it in the first message");
  }
  if (messages.size() - begin > 1 && (!format.between || !format.before_answer)) {
    throw UsageError("this model's chat format is known for one message only; give one");
  }
}

std::string shown_content(const ChatFormat& format, const Message& message) {
  std::string text = message.content;
  const size_t hidden = format.hides.empty() ? std::string::npos : text.rfind(format.hides);
  if (message.role == "assistant" && hidden != std::string::npos) {
    text.erase(0, hidden + format.hides.size());
    if (format.hides_newlines) text.erase(0, text.find_first_not_of('\n'));
  }
  return holds(format.trims, message.role) ? trimmed(text) : text;
}

}  // namespace

ChatText ChatFormat::text(const std::vector<Message>& messages, std::time_t now) const {
  check_turns(*this, messages);
  ChatText chat;
  const auto add = [&](const std::string& text) { chat.text += characters_of(dated(text, now)); };
  bool is_first = true;
  for (const Message& message : messages) {
    if (message.role == "system") {
      add(*system);
    } else if (is_first) {
      add(before);
    } else if (message.role == "assistant") {
      add(*before_answer);
    }
    const size_t begin = chat.text.size();
    chat.text += characters_of(shown_content(*this, message));
    chat.contents.push_back({begin, chat.text.size()});
    if (message.role == "assistant") chat.answers.push_back(chat.contents.back());
    if (message.role == "system") add(*after_system);
    if (message.role == "assistant") add(*between);
    is_first = false;
  }
  add(after);
  return chat;
}

}  // namespace edgespec
