"""Claim: a session's caches are reused, forked, saved and loaded without a change of a bit."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import threading
from contextlib import suppress

import pytest

from chat_corpus import assistant, user
from depth import deep
from edgespec_runtimes.ort.prefill import plan_prefill
from native_library import NativeError, NativeModel, Piece, Range

OPTIONS = (
    {"draft": 0},
    {"draft": 0, "temperature": 1.0, "repetition_penalty": 1.2},
    {"draft": 1, "gamma": 3},
    {"draft": 1, "gamma": 3, "temperature": 1.0},
    {"draft": 1, "gamma": 2, "temperature": 1.3, "rule": "block", "stop_tokens": [9]},
    {"draft": 1, "gamma": 5, "temperature": 0.9, "rule": "token", "logprobs": 1},
    {"draft": 2, "gamma": 3, "stop": ["zz"]},
    {"draft": 3, "gamma": 3},
    {"draft": 3, "temperature": 1.0, "rule": "token"},
)
PROMPT = [5, 60, 7, 8, 9, 60, 7, 8, 30, 31, 60, 7]


def the_rest(session):
    """What a session still has to say."""
    tokens = session.rest()
    return tokens, session.ending, session.rounds, session.accepted, session.logprobs, session.shown


@pytest.mark.parametrize("given", OPTIONS)
def test_forks_and_saved_sessions_go_on_as_the_undisturbed_one(native_tiny, tmp_path, given):
    options = {"seed": 4, "max_new_tokens": 20, **given}
    session, undisturbed = native_tiny.session(), native_tiny.session()
    session.begin(PROMPT, **options)
    undisturbed.begin(PROMPT, **options)
    moments = 0
    while not session.ending:
        fork = session.fork()
        if moments % 3 == 0:
            session.save(tmp_path / "saved")
            others = [fork, native_tiny.load_session(tmp_path / "saved"), fork.fork()]
        else:
            others = [fork]
        # What was told before is not told again.
        session.rounds = session.accepted = 0
        session.logprobs, session.shown = [], ""
        expected = the_rest(session.fork())
        for other in others:
            assert the_rest(other) == expected
        next(session.pieces(), None)
        next(undisturbed.pieces(), None)
        assert session.fork().rest() == undisturbed.fork().rest()
        moments += 1
    assert moments > 3
    assert the_rest(session.fork())[0] == []


@pytest.mark.parametrize("rule", ["token", "block"])
def test_gamma_goes_on_from_what_a_text_has_taught(native_tiny, tmp_path, rule):
    options = {"seed": 5, "max_new_tokens": 60, "temperature": 1.0, "rule": rule}
    whole = native_tiny.session().text(PROMPT, **options)
    session, begun = native_tiny.session(), []
    session.begin(PROMPT, **options)
    for tokens in session.pieces():
        begun += tokens
        assert begun + session.fork().rest() == whole
    session.begin(PROMPT, **options)
    for _ in range(3):
        next(session.pieces())
    session.save(tmp_path / "saved")
    assert native_tiny.load_session(tmp_path / "saved").rest() == session.rest()


@pytest.mark.parametrize("given", [{"gamma": 3}, {"gamma": 2, "temperature": 1.0}, {"draft": 0}])
def test_translations_go_on(pair_folder, tmp_path, built, given):
    model = NativeModel(pair_folder, threads=1)
    session = model.session()
    whole = session.text("the library is new and fast", max_new_tokens=16, seed=1, **given)
    session.begin("the library is new and fast", max_new_tokens=16, seed=1, **given)
    begun = next(session.pieces())
    session.save(tmp_path / "saved")
    assert begun + model.load_session(tmp_path / "saved").rest() == whole
    assert begun + session.fork().rest() == whole


@pytest.mark.parametrize("of", ["eagle_folder", "t5_eagle_folder"])
def test_an_eagle_head_goes_on(of, request, built):
    session = NativeModel(request.getfixturevalue(of), threads=1).session()
    for given in ({}, {"temperature": 1.0, "rule": "block"}):
        options = {"gamma": 4, "max_new_tokens": 20, "seed": 3, **given}
        whole = session.text(PROMPT, **options)
        session.begin(PROMPT, **options)
        begun = []
        while not session.ending:
            assert begun + session.fork().rest() == whole
            begun += next(session.pieces(), [])


def test_a_fork_does_not_know_its_origin(native_tiny):
    session = native_tiny.session()
    expected = session.text(PROMPT, max_new_tokens=12)
    session.begin(PROMPT, max_new_tokens=12)
    fork = session.fork()
    session.text([3, 4], max_new_tokens=5)
    session.close()
    assert fork.rest() == expected
    assert fork.text(PROMPT, max_new_tokens=12) == expected


def turns_of_tokens(session, turns, **given):
    """A conversation of token ids: the prompts, where their answers are, and the answers."""
    numbers, prompt, answers, made = random.Random(1), [], [], []
    for turn in range(turns):
        prompt = [*prompt, *(numbers.randrange(3, 60) for _ in range(6 + turn))]
        answer = session.text(prompt, answers=answers, seed=turn, logprobs=1, **given)
        made.append((list(prompt), list(answers), answer, list(session.logprobs)))
        answers = [*answers, range(len(prompt) - 1, len(prompt) + len(answer) - 1)]
        prompt += answer
    return made


@pytest.mark.parametrize(
    "given",
    [
        {"draft": 0},
        {"gamma": 3, "temperature": 1.0},
        {"gamma": 3, "temperature": 1.0, "rule": "block"},
        {"draft": 2, "gamma": 3},
        {"draft": 3, "gamma": 3, "temperature": 1.0, "rule": "token"},
    ],
)
def test_answers_that_are_reused_have_the_bits_of_those_computed_again(native_tiny, given):
    given = {"max_new_tokens": 9, "ignore_eos": 1, **given}
    session = native_tiny.session()
    for prompt, answers, answer, logprobs in turns_of_tokens(session, 4, **given):
        other, turn = native_tiny.session(), len(answers)
        assert other.text(prompt, answers=answers, seed=turn, logprobs=1, **given) == answer
        assert other.logprobs == logprobs


def test_only_what_is_new_is_read(native_tiny):
    session = native_tiny.session()
    answer = session.text(PROMPT, answers=[], max_new_tokens=8, ignore_eos=1)
    assert session.progress() == (11, 11)
    assert len(answer) == 8
    longer = [*PROMPT, *answer, 5, 6, 7]
    answers = [range(11, 19)]  # the last token of the answer was never scored
    session.begin(longer, answers=answers)
    assert session.progress() == (3, 3)
    session.begin(longer, answers=answers)
    assert session.progress() == (0, 0)
    session.begin([*longer[:14], 4, 4], answers=[range(11, 14)])
    assert session.progress() == (1, 1)
    session.begin(longer)  # no conversation: all of it
    assert session.progress() == (22, 22)


def test_a_chat_reads_only_what_is_new(chat_folder, built):
    model = NativeModel(chat_folder, threads=1)
    session, messages = model.session(), [user("Hi")]
    for _ in range(3):
        session.text(messages, max_new_tokens=6, temperature=1.0, seed=3)
        shown, fresh = session.shown, model.session()
        fresh.text(messages, max_new_tokens=6, temperature=1.0, seed=3)
        assert fresh.shown == shown
        assert fresh.progress()[1] >= session.progress()[1]
        messages = [*messages, assistant(shown), user("and then?")]
    assert session.progress()[1] < fresh.progress()[1]


def test_the_plan_of_a_prompt_is_pythons(hooks):
    numbers = random.Random(2)
    for _ in range(40):
        borders = sorted(numbers.randrange(600) for _ in range(2 * numbers.randrange(4)))
        answers = [range(*pair) for pair in zip(borders[::2], borders[1::2], strict=True)]
        count, is_short = numbers.randrange(600), numbers.randrange(2)
        plan = (ctypes.c_int64 * (3 * count))()
        ranges = (Range * max(1, len(answers)))(*(Range(one.start, one.stop) for one in answers))
        hooks.edgespec_hook_plan(
            ctypes.c_int64(count), ranges, ctypes.c_size_t(len(answers)), is_short, plan
        )
        expected = [call or (-1, -1, 0) for call in plan_prefill(count, answers, bool(is_short))]
        assert [tuple(plan[3 * i : 3 * i + 3]) for i in range(count)] == expected


@pytest.fixture
def saved(native_tiny, tmp_path):
    """A session in the middle of a text, in a file."""
    session = native_tiny.session()
    session.begin(PROMPT, gamma=3, max_new_tokens=30)
    next(session.pieces())
    session.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_session_of_another_model_is_refused(native_tiny, own_pair, saved, pair_folder):
    for folder, given, sentence in (
        (pair_folder, {}, "saved was saved with another folder than "),
        (own_pair, {"capacity": 90}, r"positions and this model has 90; load the model with"),
    ):
        with pytest.raises(NativeError, match=sentence) as refused:
            NativeModel(folder, threads=1, **given).load_session(saved)
        assert refused.value.status == "usage"
    assert NativeModel(own_pair, threads=1).load_session(saved).rest()  # a copy of the folder


def test_a_damaged_session_is_refused(native_tiny, saved):
    whole = saved.read_bytes()
    numbers = random.Random(0)
    damaged = [whole[:-1], whole[:200], whole + b"x", whole[:100]]
    for _ in range(20):
        changed = bytearray(whole)
        changed[numbers.randrange(25, len(whole))] ^= 1 << numbers.randrange(8)
        damaged.append(bytes(changed))
    for content in damaged:
        saved.write_bytes(content)
        with pytest.raises(NativeError, match=r"saved is damaged \(.*\); save the session again"):
            native_tiny.load_session(saved)
    for content in (b"", b"{}", b"edgespec", whole[:64], whole[1:]):
        saved.write_bytes(content)
        with pytest.raises(NativeError, match="is no saved session; give a file that"):
            native_tiny.load_session(saved)
    saved.write_bytes(whole[:17] + b"\1" + whole[18:])
    with pytest.raises(NativeError, match="has session format 1 and this edgespec reads 3"):
        native_tiny.load_session(saved)
    saved.unlink()
    with pytest.raises(NativeError, match="is no file; give one that edgespec_save wrote"):
        native_tiny.load_session(saved)


def test_without_room_the_old_file_stays(native_tiny, saved):
    whole = saved.read_bytes()
    session = native_tiny.load_session(saved)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, hard))
    try:
        with pytest.raises(NativeError, match=r"cannot be written to .*; make room"):
            session.save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(NativeError, match=r"cannot be written to .*\(there is no such folder\)"):
        session.save(saved.parent / "none" / "saved")
    assert saved.read_bytes() == whole
    assert list(saved.parent.iterdir()) == [saved]
    assert session.rest() == native_tiny.load_session(saved).rest()


def test_closed_handles_are_errors(tiny_folder, built):
    model = NativeModel(tiny_folder, threads=1)
    session, library = model.session(), model.library
    handle, of_model = session.handle, model.handle
    session.close()
    model.close()
    library.edgespec_cancel(handle)
    library.edgespec_close_session(handle)
    library.edgespec_close(of_model)
    other = ctypes.c_void_p()
    for call, name in (
        (lambda: library.edgespec_next(handle, ctypes.byref(Piece())), b"session"),
        (lambda: library.edgespec_fork(handle, ctypes.byref(other)), b"session"),
        (lambda: library.edgespec_next(of_model, ctypes.byref(Piece())), b"session"),
        (lambda: library.edgespec_open_session(of_model, ctypes.byref(other)), b"model"),
        (lambda: library.edgespec_encode(of_model, b"a", None, 0, ctypes.byref(other)), b"model"),
    ):
        assert call() == 2
        assert library.edgespec_message() == b"the %s is not open; open another" % name


def test_a_second_thread_on_a_session_is_an_error(native_tiny):
    session, other, refused = native_tiny.session(), native_tiny.session(), []
    expected = other.text(PROMPT, ignore_eos=1)
    done = threading.Event()

    def disturb():
        piece = Piece(size=3)  # refused before it could take a round
        library, message = native_tiny.library, b""
        while not done.is_set():
            library.edgespec_next(session.handle, ctypes.byref(piece))
            message = library.edgespec_message()
            if b"another thread is using this session" in message:
                refused.append(message)

    thread = threading.Thread(target=disturb)
    thread.start()
    whole_texts = 0
    while not refused and whole_texts < 2_000:
        with suppress(NativeError):  # the disturber holds it, for milliseconds if it is displaced
            session.text(PROMPT, ignore_eos=1)  # nearly all of it inside calls
            whole_texts += 1
    done.set()
    thread.join()
    assert refused
    assert session.text(PROMPT, ignore_eos=1) == expected


def test_only_an_ordinary_file_is_replaced_and_a_link_stays_one(
    native_tiny, saved, tmp_path, monkeypatch
):
    session = native_tiny.load_session(saved)
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(saved)
    for other in (tmp_path, pipe):
        with pytest.raises(NativeError, match=r"\(it is no ordinary file\); give another file"):
            session.save(other)
    assert pipe.is_fifo()
    before = saved.stat().st_ino
    session.save(link)
    assert link.is_symlink()
    assert saved.stat().st_ino != before
    monkeypatch.chdir(tmp_path)
    session.save("here")
    assert (tmp_path / "here").read_bytes() == saved.read_bytes()
    assert native_tiny.load_session(link).rest() == session.rest()


def counted(session, library):
    """How many tokens are still to come. They themselves are freed with the session, which another
    thread may close at any moment; what a call has filled in stays."""
    piece, count = Piece(size=ctypes.sizeof(Piece)), 0
    while not piece.ending:
        if library.edgespec_next(session.handle, ctypes.byref(piece)):
            return None  # closed between two pieces
        count += piece.count
    return count


@pytest.mark.parametrize("count", [5, pytest.param(300, marks=deep)])
def test_objects_are_closed_in_every_order_and_while_they_are_used(tiny_folder, built, count):
    numbers = random.Random(count)
    for _ in range(count):
        model = NativeModel(tiny_folder, threads=1)
        sessions = [model.session() for _ in range(3)]
        for one in sessions:
            one.begin(PROMPT, max_new_tokens=10, ignore_eos=1)
        objects = [model, *sessions, sessions[0].fork()]
        used = objects[numbers.randrange(1, 5)]
        found = []

        def run(used=used, found=found, library=model.library):
            found.append(counted(used, library))

        thread = threading.Thread(target=run)
        thread.start()
        for one in numbers.sample(objects, len(objects)):
            one.close()
        thread.join()
        assert found in ([None], [10])
