// Answers a message, as it is generated: chat PAIR LIBONNXRUNTIME MESSAGE. Never compiled.
import Edgespec

@main
struct Chat {
    static func main() async throws {
        let given = CommandLine.arguments
        guard given.count == 4 else { fatalError("chat PAIR LIBONNXRUNTIME MESSAGE") }
        let model = try Model(folder: given[1], onnxruntime: given[2])
        let session = try model.openSession()
        var options = Options()
        options.numbers.max_new_tokens = 64
        for try await piece in try session.begin([Message(role: "user", content: given[3])], options) {
            print(piece.text, terminator: "")
        }
    }
}
