// Transcribes a sound twice: as it is, and with every option. Prints a line for each segment: START END
// LOGPROB TOKENS, of which the tokens have commas; and at the end LANGUAGE SECONDS DRAFTED.
using System;
using System.Globalization;
using System.IO;
using Edgespec;

internal static class Transcripts
{
    private static void Main(string[] given)
    {
        CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        var where = new LoadOptions { Onnxruntime = given[1], Threads = 1 };
        byte[] bytes = File.ReadAllBytes(given[2]);
        var sound = new float[bytes.Length / sizeof(float)];
        Buffer.BlockCopy(bytes, 0, sound, 0, sound.Length * sizeof(float));
        var all = new TranscriptOptions
        {
            Language = "de",
            Translate = true,
            Timestamps = false,
            UsePrevious = true,
            Prompt = "Names",
            Temperatures = new[] { 0, 0.5 },
            NoSpeech = double.NaN,
            MinLogprob = -2.5,
            MaxCompression = 4.5,
            Draft = Draft.Model,
            Gamma = 3,
            Seed = 5,
        };
        using (var model = new Model(given[0], where))
        using (Session session = model.OpenSession())
        {
            Show(session.BeginTranscript(sound));
            Show(session.BeginTranscript(sound, all));
            Transcript dropped = session.BeginTranscript(sound, all);
            session.BeginTranscript(sound, all);
            try
            {
                dropped.GetEnumerator().MoveNext();
            }
            catch (InvalidOperationException)
            {
                Console.WriteLine("dropped");
            }
            all.Language = "xx";
            try
            {
                session.BeginTranscript(sound, all);
            }
            catch (EdgespecException error)
            {
                Console.WriteLine(error.Message);
            }
        }
    }

    private static void Show(Transcript transcript)
    {
        foreach (Segment one in transcript)
            Console.WriteLine($"{one.Start:R} {one.End:R} {one.Logprob:R} {string.Join(",", one.Tokens)}");
        Segment last = transcript.Latest;
        Console.WriteLine($"{last.Language} {last.Seconds:R} {last.Drafted}");
    }
}
