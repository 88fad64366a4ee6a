// Answers a message, as it is generated: Chat PAIR LIBONNXRUNTIME MESSAGE. Never compiled.
import edgespec.LoadOptions
import edgespec.Message
import edgespec.Model
import edgespec.Options

fun main(given: Array<String>) {
    val where = LoadOptions().apply { onnxruntime = given[1] }
    val how = Options().apply { maxNewTokens = 64 }

    Model(given[0], where).use { model ->
        model.openSession().use { session ->
            for (piece in session.begin(listOf(Message.user(given[2])), how)) {
                print(piece.text())
                System.out.flush()
            }
        }
    }
}
