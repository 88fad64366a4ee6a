// Makes the texts that its input asks for, a line each: PROMPT NAME=VALUE…
// PROMPT is token ids with commas. Prints: TOKENS ENDING SEED LOGPROBS, of which lists have commas.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Reflection;
using System.Threading.Tasks;
using Edgespec;

internal static class Requests
{
    private static void Main(string[] given)
    {
        using (var model = new Model(given[0], new LoadOptions { Onnxruntime = given[1], Threads = 1 }))
        using (Session session = model.OpenSession())
        {
            string line;
            for (bool waits = false; (line = Console.ReadLine()) != null; waits = !waits)
                Answer(session, line.Split(' '), waits).Wait();
        }
    }

    /// Every other text is awaited.
    private static async Task Answer(Session session, string[] asked, bool waits)
    {
        var options = new Options();
        foreach (string one in asked.Skip(1))
        {
            FieldInfo field = typeof(Options).GetField(one.Substring(0, one.IndexOf('=')));
            field.SetValue(options, Value(field.FieldType, one.Substring(one.IndexOf('=') + 1)));
        }
        Text text = session.Begin(Longs(asked[0]), options);
        var pieces = new List<Piece>();
        if (waits)
        {
            IAsyncEnumerator<Piece> coming = text.GetAsyncEnumerator();
            while (await coming.MoveNextAsync()) pieces.Add(coming.Current);
        }
        else pieces.AddRange(text);
        var logprobs = pieces.SelectMany(piece => piece.Logprobs)
            .Select(one => one.ToString("R", CultureInfo.InvariantCulture));
        Console.WriteLine("{0} {1} {2} {3}", string.Join(",", pieces.SelectMany(piece => piece.Tokens)),
            text.Ending, text.Seed, string.Join(",", logprobs));
    }

    private static object Value(Type type, string written)
    {
        if (type == typeof(long[])) return Longs(written);
        if (type == typeof(ulong?)) return ulong.Parse(written);
        if (type.IsEnum) return Enum.Parse(type, written);
        if (type != typeof(Dictionary<long, double>))
            return Convert.ChangeType(written, type, CultureInfo.InvariantCulture);
        string[] bias = written.Split(':');
        double added = double.Parse(bias[1], CultureInfo.InvariantCulture);
        return new Dictionary<long, double> { { long.Parse(bias[0]), added } };
    }

    private static long[] Longs(string written) => written.Split(',').Select(long.Parse).ToArray();
}
