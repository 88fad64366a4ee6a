"""Claim: no grammar ends the process or occupies it for long: one that would is a line of error,
and the next one is read."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading

import pytest

import edgespec
from depth import one_in
from edgespec.errors import EdgespecError, UsageError
from edgespec.grammar import grammar_reading, reading_program
from grammar_schemas import closed

llguidance = pytest.importorskip("llguidance")
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX's limits")

PRIMES = (7, 11, 13, 17, 19, 23, 29, 31, 37)


def chain(name, body, count=6_000):
    """Rules `name`0, `name`1, …, each with the next one in it."""
    rules = [f"{name}{i}: {body.format(f'{name}{i + 1}')}" for i in range(count)]
    return "\n".join([f"start: {name}0", *rules, f'{name}{count}: "a"'])


TOO_DEEP = {
    "rules": chain("r", "{}"),
    "rules with texts": chain("r", '"b" {}'),
    "rules that may be left out": chain("r", "{}?"),
    "alternatives": chain("r", '{}|"c"'),
    "terminals": chain("R", "{}"),
    "terminals with texts": chain("R", '"b" {}'),
}


def both(parts):
    return "start: T\nT: " + " & ".join(f"/{part}/" for part in parts)


def ambiguous(count, before=""):
    """Each text is read in more ways than can be counted: s is any two of `count` names for s."""
    pairs = " | ".join(f"x{i} x{j}" for i in range(count) for j in range(count))
    names = "\n".join(f"x{i}: s" for i in range(count))
    return f'start: {before} s\ns: {pairs} | "a"\n{names}\n'


ALL_OF = {"allOf": [{"type": "string", "pattern": f"[a-z]{{{i + 2}}}x.*y{i}"} for i in range(40)]}
MULTIPLES = {f"p{i}": {"type": "integer", "multipleOf": 7919 + i} for i in range(60)}
TOO_LONG = {
    "patterns that all hold": lambda: edgespec.json_schema(ALL_OF),
    "such patterns within": lambda: edgespec.json_schema(closed({"a": ALL_OF}, required=["a"])),
    "multiples": lambda: edgespec.json_schema(closed(MULTIPLES, required=list(MULTIPLES))),
    "intersections": lambda: edgespec.lark(both(f"[a-z]{{{i + 2}}}x.*y{i}" for i in range(40))),
    "counts modulo primes": lambda: edgespec.lark(both(f"(a{{{p}}})*b" for p in PRIMES)),
    "complements": lambda: edgespec.lark(
        both(f".*[ab].{{{i + 1}}}c.*" for i in range(30)).replace("/.*", "~/.*") + " & /[ac]{5,90}/"
    ),
    "texts that are read in many ways": lambda: edgespec.lark(ambiguous(10)),
    "such texts behind a word": lambda: edgespec.lark(ambiguous(10, '"go"')),
    "behind a text": lambda: edgespec.lark(
        both(f"(a{{{p}}})*b" for p in PRIMES).replace("start: T", 'start: "go" T')
    ),
}


@pytest.fixture
def hasty(monkeypatch):
    """A limit that a test can afford to meet; see `test_the_limit_is_that_of_the_message`."""
    monkeypatch.setattr(grammar_reading, "PROCESSOR_S", 0.2)


def line(error):
    assert re.fullmatch(".{40,300}", str(error.value))  # one line
    return str(error.value)


@posix
@pytest.mark.parametrize("name", TOO_DEEP)
def test_a_grammar_that_overflows_the_stack_is_refused(name):
    with pytest.raises(UsageError, match=r"deeper than the stack.*flatten it") as error:
        edgespec.lark(TOO_DEEP[name])
    line(error)
    edgespec.lark('start: "a"')


@one_in(2)
@posix
@pytest.mark.parametrize("name", TOO_LONG)
def test_a_grammar_that_takes_long_is_refused(name, hasty):
    with pytest.raises(UsageError, match=r"takes more than the 0\.2 s .* use fewer") as error:
        TOO_LONG[name]()
    line(error)
    edgespec.regex("[a-z]+")


@posix
def test_the_limit_is_that_of_the_message():
    with pytest.raises(UsageError, match="the JSON schema takes more than the 3 s"):
        edgespec.json_schema(ALL_OF)


@posix
def test_a_grammar_that_takes_much_memory_is_refused(monkeypatch):
    # An empty process takes 36; the grammar more than 100, by how the C library keeps its heaps.
    monkeypatch.setattr(grammar_reading, "MEMORY_MIB", 60)
    with pytest.raises(UsageError, match="cannot be read within 60 MiB of memory") as error:
        edgespec.lark('start: "' + "aB" * 49_000 + '"i')
    line(error)
    edgespec.lark('start: "a"')


def test_a_process_that_hangs_is_ended_by_the_clock(monkeypatch):
    monkeypatch.setattr(grammar_reading, "WAITED_S", 0.2)
    hanging = grammar_reading._Readers([sys.executable, "-c", "input(); input()"])
    with pytest.raises(UsageError, match="the regular expression takes more than"):
        hanging.asked("regular expression", "", [])


@pytest.mark.parametrize("program", ["import os; os._exit(3)", "input(); raise SystemExit(3)"])
def test_a_process_that_ends_without_an_answer_is_an_error(program):
    ending = grammar_reading._Readers([sys.executable, "-c", program])
    with pytest.raises(UsageError, match=r"the grammar cannot be read .*exit code 3"):
        ending.asked("grammar", "a" * 200_000, [])


def test_a_process_that_cannot_be_started_is_an_error():
    with pytest.raises(EdgespecError, match=r"no process can be started.*No such file"):
        grammar_reading._Readers(["/no/program"]).asked("grammar", "", [])


HARMLESS = {
    "a chain of 1000 rules": lambda: edgespec.lark(chain("r", "{}", 1_000)),
    "a long text": lambda: edgespec.lark('start: "' + "a" * 90_000 + '"'),
    "nested repetitions": lambda: edgespec.regex("((a{1,100}){1,100}){1,100}"),
    "thousands of words": lambda: edgespec.json_schema({"enum": [f"v{i}" for i in range(8_000)]}),
    "a few patterns": lambda: edgespec.json_schema({"allOf": ALL_OF["allOf"][:3]}),
    "500 properties": lambda: edgespec.json_schema(closed({f"p{i}": {} for i in range(500)})),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_large_grammar_that_is_soon_read_is_taken(name):
    HARMLESS[name]()


# --- the processes --------------------------------------------------------------------------------


def started(monkeypatch):
    """The processes that are started from now on."""
    grammar_reading._readers.cache_clear()
    found, popen = [], grammar_reading.subprocess.Popen
    monkeypatch.setattr(
        grammar_reading.subprocess,
        "Popen",
        lambda *given, **named: found.append(popen(*given, **named)) or found[-1],
    )
    return found


def test_one_process_reads_grammar_after_grammar(monkeypatch):
    processes = started(monkeypatch)
    for pattern in ("a", "b", "é", "c\n", "(", "d"):
        if pattern == "(":
            with pytest.raises(UsageError, match="regular expression"):
                edgespec.regex(pattern)
        else:
            edgespec.regex(pattern)
    assert len(processes) == 1


@posix
def test_one_that_was_killed_meanwhile_is_replaced(monkeypatch):
    processes = started(monkeypatch)
    edgespec.regex("a")
    processes[0].send_signal(signal.SIGKILL)
    processes[0].wait()
    edgespec.regex("b")
    assert [process.poll() is None for process in processes] == [False, True]


def test_concurrent_callers_have_their_own_and_one_is_kept(monkeypatch):
    processes = started(monkeypatch)
    patterns = [f"a{{{i}}}" for i in range(1, 7)] * 3
    taken = []
    threads = [
        threading.Thread(target=lambda p=p: taken.append(edgespec.regex(p))) for p in patterns
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(g.rules for g in taken) == sorted(edgespec.regex(p).rules for p in patterns)
    assert sum(process.poll() is None for process in processes) <= grammar_reading.KEPT + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, if another test imported it
def test_a_forked_process_does_not_talk_to_its_parent_s(monkeypatch):
    processes = started(monkeypatch)
    edgespec.regex("a")
    child = os.fork()
    if not child:
        edgespec.regex("b")
        os._exit(len(processes))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    edgespec.regex("c")
    assert len(processes) == 1


# --- what a process says --------------------------------------------------------------------------


@pytest.mark.parametrize("special", [[], [0], [3, 300], [70]], ids=str)
@pytest.mark.parametrize(
    "rules", ['start: "aé"', "start: /[F-H]+/", "start: (", "start: <[9999999]>"]
)
def test_it_says_of_a_grammar_what_llguidance_says(rules, special):
    written = rules + "".join(f" <[{token}]>" for token in special)
    reason = reading_program.refusal(llguidance._lib, written, special)
    assert bool(reason) == (rules in ("start: (", "start: <[9999999]>"))
    assert grammar_reading.reason_to_refuse("grammar", written, special) == reason


@pytest.mark.parametrize(
    "rules",
    [
        "<[300]>",
        "<[5-49151]> /a+/",
        "<[^49151]>",
        "<[*]>",
        "<|im_end|>",
        '"a" <|x|> | <|y|>',
        "</s>",
    ],
)
def test_tokens_that_a_grammar_names_are_the_model_s_to_judge(rules):
    edgespec.lark(f"start: {rules}")


@posix
@pytest.mark.parametrize("named", ["<[49151]>", "<|im_end|>"])
def test_no_limit_is_passed_by_a_named_token(named, hasty):
    with pytest.raises(UsageError, match=r"takes more than the 0\.2 s"):
        edgespec.lark(both(f"(a{{{p}}})*b" for p in PRIMES).replace(": T", f": {named} | T"))


def test_a_program_with_python_inside_reads_grammars_itself(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/assistant")
    monkeypatch.setattr(grammar_reading, "_readers", None)
    edgespec.regex("a")
    with pytest.raises(UsageError):
        edgespec.lark(json.dumps("start"))
