using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;

namespace Edgespec
{
    /// What the structures of one call point to, until it is disposed.
    internal sealed class Memory : IDisposable
    {
        private static readonly Encoding Strict = new UTF8Encoding(false, true);
        private readonly List<IntPtr> taken = new List<IntPtr>();

        /// UTF-8 with a zero at its end. Throws EdgespecException: it cannot be written so.
        internal static byte[] Bytes(string text, string what)
        {
            if (text == null) throw new ArgumentNullException(null, what + " is null");
            if (text.IndexOf('\0') >= 0)
                throw new EdgespecException(Status.Usage, what + " has the character U+0000; leave it out");
            try
            {
                return Strict.GetBytes(text + "\0");
            }
            catch (EncoderFallbackException)
            {
                throw new EdgespecException(
                    Status.Usage, what + " has half of a character; give whole Unicode");
            }
        }

        internal IntPtr Text(string text, string what)
        {
            if (text == null) return IntPtr.Zero;
            byte[] bytes = Bytes(text, what);
            IntPtr place = Take(bytes.Length);
            Marshal.Copy(bytes, 0, place, bytes.Length);
            return place;
        }

        internal IntPtr Longs(long[] numbers)
        {
            if (numbers == null) return IntPtr.Zero;
            IntPtr place = Take(numbers.Length * sizeof(long));
            Marshal.Copy(numbers, 0, place, numbers.Length);
            return place;
        }

        internal IntPtr Doubles(double[] numbers)
        {
            if (numbers == null) return IntPtr.Zero;
            IntPtr place = Take(numbers.Length * sizeof(double));
            Marshal.Copy(numbers, 0, place, numbers.Length);
            return place;
        }

        internal IntPtr Pointers(IntPtr[] pointers)
        {
            IntPtr place = Take(pointers.Length * IntPtr.Size);
            Marshal.Copy(pointers, 0, place, pointers.Length);
            return place;
        }

        internal IntPtr Biases(ICollection<KeyValuePair<long, double>> biases)
        {
            int size = Marshal.SizeOf(typeof(Native.Bias));
            IntPtr place = Take(biases.Count * size);
            int at = 0;
            foreach (var one in biases)
            {
                var bias = new Native.Bias { token = one.Key, bias = one.Value };
                Marshal.StructureToPtr(bias, place + at++ * size, false);
            }
            return place;
        }

        internal Native.Turn[] Turns(IEnumerable<Message> messages) => messages.Select(one => new Native.Turn
        {
            role = Text(one.Role, "a role"),
            content = Text(one.Content, "a message"),
        }).ToArray();

        public void Dispose()
        {
            foreach (IntPtr place in taken) Marshal.FreeHGlobal(place);
            taken.Clear();
        }

        private IntPtr Take(int bytes)
        {
            IntPtr place = Marshal.AllocHGlobal(Math.Max(bytes, 1));
            taken.Add(place);
            return place;
        }
    }
}
