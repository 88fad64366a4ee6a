// Answers a message, as it is generated: chat PAIR LIBONNXRUNTIME MESSAGE
#include <edgespec.hpp>
#include <iostream>

int main(int count, char** given) try {
  if (count != 4) {
    std::cerr << "chat PAIR LIBONNXRUNTIME MESSAGE\n";
    return 2;
  }
  edgespec::LoadOptions where;
  where.onnxruntime = given[2];
  edgespec::Options how;
  how.max_new_tokens = 64;

  edgespec::Model model(given[1], where);
  edgespec::Session session = model.session();
  for (const edgespec_piece& piece : session.begin_chat({{"user", given[3]}}, how)) {
    std::cout << piece.text << std::flush;
  }
} catch (const edgespec::Failure& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
