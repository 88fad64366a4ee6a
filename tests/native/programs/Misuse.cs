// What goes wrong is an exception of one line, and objects may be disposed in any order and by any thread.
using System;
using System.Collections.Generic;
using System.Threading;
using Edgespec;

internal static class Misuse
{
    private static readonly long[] Prompt = { 5, 60, 7 };

    private static void Main(string[] given)
    {
        var where = new LoadOptions { Onnxruntime = given[1], Threads = 1 };
        Fails("no pair", Status.Error, () => new Model("/", where));
        var model = new Model(given[0], where);
        const string hard = "h\u00e9 \ud83d\ude00 \u4e2d\n";
        Check("round trip", model.Decode(model.Encode(hard)) == hard);
        Session session = model.OpenSession();
        Fails("a zero", Status.Usage, () => session.Begin("a\0b"));
        Fails("half", Status.Usage, () => session.Begin("\ud83d"));
        Fails("no turns", Status.Usage, () => session.Begin(new Message[0], Plain()));
        Options hot = Plain();
        hot.Temperature = -1;
        Fails("range", Status.Usage, () => session.Begin(Prompt, hot));
        Nulls(model, session);

        Text first = session.Begin(Prompt, Plain());
        IEnumerator<Piece> dropped = first.GetEnumerator();
        dropped.MoveNext();
        Text second = session.Begin(Prompt, Plain());
        Throws<InvalidOperationException>("dropped", () => dropped.MoveNext());
        session.Cancel();
        Fails("cancelled", Status.Cancelled, () => second.Rest());
        CancelledByToken(session);

        KeptTexts(given, where, model, session);
        model.Dispose();
        model.Dispose();
        session.Begin(Prompt, Plain()).Rest();
        DisposedWhileItRuns(session);
        using (var again = new Model(given[0], where))
        using (Session other = again.OpenSession())
        {
            Text text = other.Begin(Prompt, Plain());
            text.Rest();
            Check("the end", text.Ending == Ending.MaxTokens);
        }
    }

    /// Null is the defaults, an array with nothing in it, or an exception that says what it was.
    private static void Nulls(Model model, Session session)
    {
        Fails("no options", Status.Error, () => Model.Estimate("", null));
        session.Begin(Prompt, new Options { StopTokens = null });
        Fails("no tokens", Status.Usage, () => session.Begin((long[])null));
        Fails("no samples", Status.Usage, () => session.BeginTranscript(null));
        Check("nothing", model.Decode(null) == "");
        Fails("half an answer", Status.Usage, () => session.Begin(Prompt, new Options { Answers = new long[1] }));
        Fails("fewer than none", Status.Usage, () => model.OpenBatch(-1));
        Throws<ArgumentNullException>("null", () => session.Begin((string)null));
    }

    private static void KeptTexts(string[] given, LoadOptions where, Model model, Session session)
    {
        const string prompt = "A few words";
        Text text = session.Begin(prompt, Plain());
        IEnumerator<Piece> pieces = text.GetEnumerator();
        pieces.MoveNext();
        session.Save(given[2]);
        using (Session fork = session.Fork())
        using (Session loaded = model.LoadSession(given[2]))
        {
            string rest = text.Rest();
            Check("there is a rest", rest.Length > 0);
            Check("fork", fork.Rest().Rest() == rest);
            Check("loaded", loaded.Rest().Rest() == rest);
        }
        long read, toRead;
        session.PromptProgress(out read, out toRead);
        // The last token is scored with the first of the text.
        int expected = model.Encode(prompt).Length - 1;
        Check("progress", read == expected && toRead == expected);
        Check("estimate", Model.Estimate(given[0], where).Weights > 0);
        Fails("no file", Status.Usage, () => model.LoadSession("/nowhere"));
        Fails("no folder", Status.Error, () => session.Save("/nowhere/session"));
    }

    private static void CancelledByToken(Session session)
    {
        var source = new CancellationTokenSource();
        IAsyncEnumerator<Piece> coming = session.Begin(Prompt, Plain()).GetAsyncEnumerator(source.Token);
        Check("goes on", coming.MoveNextAsync().AsTask().Result);
        source.Cancel();
        try
        {
            coming.MoveNextAsync().AsTask().Wait();
        }
        catch (AggregateException failure)
        {
            Check("token", failure.InnerException is OperationCanceledException);
        }
    }

    private static void DisposedWhileItRuns(Session session)
    {
        var running = new ManualResetEventSlim();
        var worker = new Thread(() => Throws<ObjectDisposedException>("disposed", () =>
        {
            while (true)
            {
                foreach (Piece piece in session.Begin(Prompt, Plain())) running.Set();
            }
        }));
        worker.Start();
        running.Wait();
        session.Dispose();
        worker.Join();
    }

    private static Options Plain() =>
        new Options { Draft = Draft.None, MaxNewTokens = 8, IgnoreEos = true };

    private static void Fails(string name, Status status, Action call)
    {
        try
        {
            call();
        }
        catch (EdgespecException failure)
        {
            Check(name, failure.Status == status && !failure.Message.Contains("\n"));
            return;
        }
        Check(name, false);
    }

    private static void Throws<Failure>(string name, Action call) where Failure : Exception
    {
        try
        {
            call();
        }
        catch (Failure)
        {
            Check(name, true);
            return;
        }
        Check(name, false);
    }

    private static void Check(string name, bool holds)
    {
        if (!holds)
        {
            Console.Error.WriteLine("FAILED: " + name);
            Environment.Exit(1);
        }
        Console.WriteLine(name);
    }
}
