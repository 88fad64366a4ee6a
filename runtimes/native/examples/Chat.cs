// Answers a message, as it is generated: Chat PAIR LIBONNXRUNTIME MESSAGE
using System;
using Edgespec;

internal static class Chat
{
    private static int Main(string[] given)
    {
        if (given.Length != 3)
        {
            Console.Error.WriteLine("Chat PAIR LIBONNXRUNTIME MESSAGE");
            return 2;
        }
        try
        {
            using (var model = new Model(given[0], new LoadOptions { Onnxruntime = given[1] }))
            using (Session session = model.OpenSession())
            {
                var options = new Options { MaxNewTokens = 64 };
                foreach (Piece piece in session.Begin(new[] { new Message("user", given[2]) }, options))
                    Console.Write(piece.Text);
            }
            return 0;
        }
        catch (EdgespecException failure)
        {
            Console.Error.WriteLine(failure.Message);
            return 1;
        }
    }
}
