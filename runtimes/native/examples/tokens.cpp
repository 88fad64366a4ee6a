// Goes on from token ids: tokens PAIR LIBONNXRUNTIME TOKEN…
#include <edgespec.hpp>
#include <iostream>

int main(int count, char** given) try {
  if (count < 4) {
    std::cerr << "tokens PAIR LIBONNXRUNTIME TOKEN…\n";
    return 2;
  }
  std::vector<std::int64_t> prompt;
  for (int i = 3; i < count; ++i) prompt.push_back(std::stoll(given[i]));

  edgespec::LoadOptions where;
  where.onnxruntime = given[2];
  edgespec::Options how;
  how.max_new_tokens = 32;

  edgespec::Model model(given[1], where);
  edgespec::Session session = model.session();
  for (const edgespec_piece& piece : session.begin(prompt, how)) {
    for (std::size_t i = 0; i < piece.count; ++i) std::cout << piece.tokens[i] << '\n';
  }
} catch (const edgespec::Failure& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
