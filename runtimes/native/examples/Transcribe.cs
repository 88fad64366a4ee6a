// Says what is said in a sound, and when: Transcribe PAIR LIBONNXRUNTIME SOUND
// SOUND is raw: ffmpeg -i speech.mp3 -ac 1 -ar 16000 -f f32le speech.f32
using System;
using System.IO;
using Edgespec;

internal static class Transcribe
{
    private static int Main(string[] given)
    {
        if (given.Length != 3)
        {
            Console.Error.WriteLine("Transcribe PAIR LIBONNXRUNTIME SOUND");
            return 2;
        }
        try
        {
            byte[] bytes = File.ReadAllBytes(given[2]);
            var sound = new float[bytes.Length / sizeof(float)];
            Buffer.BlockCopy(bytes, 0, sound, 0, sound.Length * sizeof(float));
            using (var model = new Model(given[0], new LoadOptions { Onnxruntime = given[1] }))
            using (Session session = model.OpenSession())
                foreach (Segment one in session.BeginTranscript(sound))
                    Console.WriteLine(FormattableString.Invariant($"{one.Start:F2} {one.End:F2} {one.Text}"));
            return 0;
        }
        catch (Exception failure) when (failure is EdgespecException || failure is IOException)
        {
            Console.Error.WriteLine(failure.Message);
            return 1;
        }
    }
}
