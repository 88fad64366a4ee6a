// Makes the texts of several prompts at once, and takes the second one out after its first piece.
// Arguments: the pair, ONNX Runtime, prompts of token ids with commas. Prints: TEXT TOKENS ENDING SEED.
using System;
using System.Collections.Generic;
using System.Linq;
using Edgespec;

internal static class Together
{
    private static void Main(string[] given)
    {
        var model = new Model(given[0], new LoadOptions { Onnxruntime = given[1], Threads = 1 });
        using (Batch batch = model.OpenBatch(given.Length - 2))
        {
            model.Dispose();
            Refused(batch, "range", () => batch.Add(new long[] { 999 }));
            var seeds = new Dictionary<long, ulong>();
            var tokens = new Dictionary<long, List<long>>();
            foreach (string prompt in given.Skip(2))
            {
                var options = new Options { MaxNewTokens = 20, Temperature = 1, Seed = 7 };
                AddedText added = batch.Add(prompt.Split(',').Select(long.Parse).ToArray(), options);
                seeds[added.Text] = added.Seed;
                tokens[added.Text] = new List<long>();
            }
            Refused(batch, "full", () => batch.Add("one more"));
            foreach (TextPiece one in batch.Pieces())
            {
                List<long> made = tokens[one.Text];
                string ending = one.Failure == null ? one.Piece.Ending.ToString() : one.Failure.Status.ToString();
                if (one.Failure == null) made.AddRange(one.Piece.Tokens);
                if (one.Text == 1) batch.Cancel(1);
                if (ending == "GoesOn") continue;
                string list = made.Count == 0 ? "-" : string.Join(",", made);
                Console.WriteLine($"{one.Text} {list} {ending} {seeds[one.Text]}");
            }
        }
    }

    private static void Refused(Batch batch, string name, Action call)
    {
        try
        {
            call();
        }
        catch (EdgespecException failure) when (failure.Status == Status.Usage)
        {
            batch.Progress(0, out long read, out long toRead);
            return;
        }
        throw new Exception(name);
    }
}
