// Goes on from a text, or translates it: Translate PAIR LIBONNXRUNTIME TEXT
using System;
using Edgespec;

internal static class Translate
{
    private static int Main(string[] given)
    {
        if (given.Length != 3)
        {
            Console.Error.WriteLine("Translate PAIR LIBONNXRUNTIME TEXT");
            return 2;
        }
        try
        {
            using (var model = new Model(given[0], new LoadOptions { Onnxruntime = given[1] }))
            using (Session session = model.OpenSession())
            {
                var options = new Options { MaxNewTokens = 64 };
                foreach (Piece piece in session.Begin(given[2], options))
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
