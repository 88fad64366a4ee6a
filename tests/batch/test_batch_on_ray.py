"""Claim: a batch on Ray has the answers that it has without, once, whichever process dies."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from batch_files import choices_of, lines_of, messages_of, texts_of, written
from command import EDGESPEC, run
from depth import deep
from edgespec.artifact.manifest import MANIFEST, pair_digest
from edgespec.batch.answering import AnsweringOptions
from edgespec.batch.cores import CoreShare, shared_cores, sockets_here
from edgespec.batch.ray_cluster import ActorPool
from edgespec.batch.ray_stage import RayAnswers
from edgespec.batch.request_line import read_line
from edgespec.batch.result_lines import errors_path, partial_path
from edgespec.errors import EdgespecError, UsageError

ray = pytest.importorskip("ray", reason="Ray has no wheel for this system")
ON_RAY = ("--ray", "local", "--actors", 2)
SEEDED = ("--seed", 11, "-n", 24, "-t", 1, "--threads", 1)
HERE = AnsweringOptions("pair", 8, {}, {"draft": True})


def requests(folder: Path, count: int) -> Path:
    return written(folder / "in.jsonl", *({"prompt": f"line {n}"} for n in range(count)))


def without_ray(folder: Path, source: Path, out: Path) -> dict[str, str]:
    run("batch", folder, source, "-o", out, *SEEDED)
    return texts_of(out)


# --- the same answers -----------------------------------------------------------------------------


@deep
@pytest.mark.parametrize("order", [[], ["--any-order"]])
def test_two_actors_give_the_texts_of_one_process_and_the_same_errors(tiny_folder, tmp_path, order):
    lines = [{"prompt": f"line {n}"} for n in range(100)]
    again = {"custom_id": "line-3", "prompt": "x"}
    source = written(tmp_path / "in", *lines, b"no JSON", {"prompt": "x" * 500}, again)
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    texts = without_ray(tiny_folder, source, here)
    done = json.loads(
        run(
            "batch", tiny_folder, source, "-o", there, *SEEDED, *ON_RAY, *order, "--json"
        ).stdout.splitlines()[-1]
    )
    assert texts_of(there) == texts
    if not order:
        assert list(texts_of(there)) == list(texts)
    errors = [path.with_name(f"{path.stem}.errors.jsonl") for path in (here, there)]
    assert messages_of(errors[0]) == messages_of(errors[1])
    assert (done["lines"], done["failed"]) == (103, 3)


@deep
def test_two_actors_give_all_answers_of_lines_with_n(tiny_folder, tmp_path):
    lines = [{"prompt": f"line {n}", "n": 1 + n % 5} for n in range(20)]
    source = written(tmp_path / "in", *lines, {"prompt": "x", "n": 129})
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    run("batch", tiny_folder, source, "-o", here, *SEEDED)
    run("batch", tiny_folder, source, "-o", there, *SEEDED, *ON_RAY, "--texts", 3)
    texts = choices_of(there)
    assert texts == choices_of(here)
    assert [len(of_line) for of_line in texts.values()] == [line["n"] for line in lines]
    assert messages_of(errors_path(there)) == messages_of(errors_path(here))


def test_lines_that_ask_for_more_texts_come_in_smaller_batches(tmp_path, monkeypatch):
    """A batch is delivered as a whole, so a killed run loses no more of them."""
    from edgespec.batch import ray_answering

    batches: list[int] = []
    answers = lambda requests, pool, stage, count: batches.append(count) or iter([])  # noqa: E731
    monkeypatch.setattr(ray_answering, "_answers", answers)
    for n in (1, 4, 129):  # no line is answered with 129
        line = json.dumps({"prompt": "x", "n": n}).encode()
        lines = [read_line(number, line) for number in range(256)]
        pool = ActorPool(2, 1.0, 2)
        assert list(ray_answering.answers_on_ray(lines, pool, tmp_path, "", {}, HERE)) == []
    assert batches == [4, 16, 4]


def test_a_stage_adds_answers_to_rows_of_any_batch(tiny_folder, tiny):
    stage = RayAnswers(str(tiny_folder), loading={"threads": 1}, instead={"seed": 4})
    line = json.dumps({"prompt": "x", "max_tokens": 8, "temperature": 1})
    answered = stage({"number": [3, 1], "request": [line, line.encode()], "mine": ["a", "b"]})
    assert answered["mine"] == ["a", "b"]
    for number, text in zip(answered["number"], answered["answer"], strict=True):
        answer = json.loads(text)
        plain = tiny.generate("x", max_new_tokens=8, temperature=1, seed=3 + number, draft=False)
        assert answer["custom_id"] == f"line-{number}"
        assert answer["response"]["body"]["choices"][0]["text"] == plain.text


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"number": [1]}, "a batch has no column 'request'"),
        ({"number": [1, 1], "request": ["{}", "{}"]}, r"numbers of rows are \[1, 1\]"),
    ],
)
def test_a_stage_says_which_columns_it_needs(tiny_folder, batch, message):
    stage = RayAnswers(str(tiny_folder), loading={"threads": 1})
    with pytest.raises(UsageError, match=message):
        stage(batch)


# --- processes that die ---------------------------------------------------------------------------


def processes_below(parent: int) -> dict[int, str]:
    """The command lines of all processes that a process has started, by their ids."""
    parents, commands = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            commands[int(folder.name)] = (folder / "cmdline").read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue  # it has ended
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    below = {parent}
    while new := {pid for pid, above in parents.items() if above in below} - below:
        below |= new
    return {pid: commands[pid] for pid in below - {parent} if pid in commands}


def actors_of(driver: int) -> set[int]:
    found = processes_below(driver)
    return {pid for pid, command in found.items() if command.startswith("ray::MapWorker")}


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    while not condition():
        assert process.poll() is None, "the batch ended first"
        time.sleep(0.01)


def started(*arguments: object) -> subprocess.Popen:
    command = [EDGESPEC, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def answers_in(out: Path) -> int:
    partial = partial_path(out)
    return max(0, partial.read_bytes().count(b"\n") - 1) if partial.exists() else 0


@deep
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_an_actor_that_is_killed_loses_and_repeats_no_line(tiny_folder, tmp_path):
    """Texts, their order and the errors are those of one process."""
    count = 240
    lines = [{"prompt": f"line {n}"} for n in range(count)]
    wrong = [b"no JSON", {"prompt": "x" * 500}, {"custom_id": "line-3", "prompt": "x"}]
    source = written(tmp_path / "in.jsonl", *lines, *wrong)
    here, out = tmp_path / "here.jsonl", tmp_path / "out.jsonl"
    texts = without_ray(tiny_folder, source, here)
    process = started("batch", tiny_folder, source, "-o", out, *SEEDED, *ON_RAY, "--texts", 1)
    wait_until(lambda: answers_in(out) > len(wrong), process)  # those have their answers at once
    actors = actors_of(process.pid)
    assert len(actors) == 2
    os.kill(min(actors), signal.SIGKILL)
    assert answers_in(out) < count + len(wrong), "the batch had ended before the actor was killed"
    wait_until(lambda: bool(actors_of(process.pid) - actors), process)  # Ray starts another
    assert process.wait(300) == 0
    assert list(texts_of(out).items()) == list(texts.items())
    assert len(messages_of(errors_path(out))) == len(wrong)
    assert messages_of(errors_path(out)) == messages_of(errors_path(here))


@deep
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_batch_on_ray_that_is_killed_continues_without_ray(tiny_folder, tmp_path):
    count = 240
    source, out = requests(tmp_path, count), tmp_path / "out.jsonl"
    process = started("batch", tiny_folder, source, "-o", out, *SEEDED, *ON_RAY, "--texts", 1)
    wait_until(lambda: answers_in(out) > 0, process)
    workers = processes_below(process.pid)
    process.kill()
    process.wait()
    for pid in workers:  # Ray's processes would end by themselves, within a minute
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    done = json.loads(run("batch", tiny_folder, source, "-o", out, *SEEDED, "--json").stdout)
    assert 0 < done["earlier"] < count
    assert texts_of(out) == without_ray(tiny_folder, source, tmp_path / "here.jsonl")


# --- where actors run -----------------------------------------------------------------------------


def test_cores_are_grouped_by_the_sockets_that_linux_names(tmp_path, monkeypatch):
    monkeypatch.setattr("edgespec.batch.cores._allowed", lambda: list(range(8)))
    for processor in range(8):  # two sockets with two cores of two processors each
        folder = tmp_path / f"cpu{processor}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{processor % 2}\n")
        (folder / "core_id").write_text(f"{processor // 2 % 2}\n")
    assert sockets_here(tmp_path) == [[(0, 4), (2, 6)], [(1, 5), (3, 7)]]


def test_a_system_that_names_no_sockets_has_one(tmp_path, monkeypatch):
    monkeypatch.setattr("edgespec.batch.cores._allowed", lambda: [0, 1])
    assert sockets_here(tmp_path) == [[(0,), (1,)]]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_each_core_is_in_one_share_and_no_share_is_empty(count):
    cores = [(n,) for n in range(5)]
    shares = shared_cores(cores, count)
    assert len(shares) == count
    assert all(shares)
    if count <= len(cores):
        assert [core for share in shares for core in share] == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound")
def test_processes_take_different_shares_and_are_bound_to_them(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from edgespec.batch.cores import CoreShare\n"
        "share = CoreShare(2, Path(sys.argv[1])); "
        "print(sorted(os.sched_getaffinity(0)), flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    bound = []
    processes = []
    for _ in range(2):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        bound.append(json.loads(process.stdout.readline()))
    for process in processes:
        process.communicate()
    cores = [core for socket_ in sockets_here() for core in socket_]
    expected = [sorted(n for core in share for n in core) for share in shared_cores(cores, 2)]
    assert bound == expected


def test_a_share_is_free_again_when_its_process_has_ended(tmp_path):
    first = CoreShare(1, tmp_path)
    del first
    assert CoreShare(1, tmp_path).cores == [core for cores in sockets_here() for core in cores]


# --- bad input ------------------------------------------------------------------------------------


def refused(tiny_folder: Path, tmp_path: Path, *options: object, code: int = 1) -> str:
    out = tmp_path / "out.jsonl"
    source = requests(tmp_path, 3)
    result = run("batch", tiny_folder, source, "-o", out, *options, code=code)
    assert not out.exists()
    return result.stderr


@pytest.mark.parametrize("address", ["nowhere", "ray://head:10001", "head:", ":1", "head:port"])
def test_what_is_no_address_is_refused(tiny_folder, tmp_path, address):
    message = refused(tiny_folder, tmp_path, "--ray", address, code=2)
    assert f"the address of Ray is '{address}'; give local, auto or HOST:PORT" in message


def test_an_address_where_nothing_answers_is_named(tiny_folder, tmp_path):
    message = refused(tiny_folder, tmp_path, "--ray", "127.0.0.1:1")
    assert "nothing answers at Ray's address '127.0.0.1:1'" in message


def test_an_address_where_something_else_answers_is_named_in_time(
    tiny_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("edgespec.batch.ray_cluster.ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        message = refused(tiny_folder, tmp_path, "--ray", address)
    assert f"what answers at '{address}' was no Ray of this version within 1 s" in message


def test_without_a_cluster_here_auto_says_so(tiny_folder, tmp_path, monkeypatch):
    def init(**_):  # other tests have clusters on this machine, which it might find
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", init)
    message = refused(tiny_folder, tmp_path, "--ray", "auto")
    assert "no use of Ray at 'auto': Could not find any running Ray instance." in message


@pytest.mark.parametrize("address", ["local", "127.0.0.1:6379"])
def test_without_ray_the_extra_is_named(tiny_folder, tmp_path, monkeypatch, address):
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    message = refused(tiny_folder, tmp_path, "--ray", address)
    assert re.search(r"this needs the package 'ray': pip install .*\[ray\]", message)


@pytest.mark.parametrize("actors", ["0", "-1", "many", "²", "9999999"])
def test_what_is_no_number_of_actors_is_refused(tiny_folder, tmp_path, actors):
    message = refused(tiny_folder, tmp_path, "--ray", "local", "--actors", actors, code=2)
    assert f"'{actors}' is no number of actors; give node, socket or a number" in message


def test_actors_without_ray_are_refused(tiny_folder, tmp_path):
    message = refused(tiny_folder, tmp_path, "--actors", 2, code=2)
    assert "--actors is for Ray; give --ray ADDRESS, too" in message


@deep
def test_a_node_without_the_pair_is_named_before_the_batch_and_by_its_actors(own_pair, tmp_path):
    from edgespec.batch.ray_answering import answers_on_ray
    from edgespec.batch.ray_cluster import find_pool, ray_cluster

    sha256 = pair_digest(own_pair)
    absent = tmp_path / "absent"
    line = read_line(1, b'{"prompt": "x"}')
    with ray_cluster("local"):
        pool = find_pool(own_pair, sha256, 2)
        assert (pool.size, pool.shares) == (2, 2)
        assert find_pool(own_pair, sha256, "node").size == 1
        assert find_pool(own_pair, sha256, "socket").size == len(sockets_here())
        with pytest.raises(EdgespecError, match=rf"^node [\d.]+ of Ray: .*absent.*{MANIFEST}"):
            find_pool(absent, sha256, "node")
        with pytest.raises(EdgespecError, match=r"^node [\d.]+ of Ray: .* is another pair"):
            find_pool(own_pair, "0" * 64, "node")
        with pytest.raises(EdgespecError, match=r"^Ray cannot go on: .*absent[^\n]*kept$"):
            list(answers_on_ray([line], pool, absent, sha256, {}, HERE))


@deep
def test_an_option_that_fits_no_line_ends_a_batch_on_ray(tiny_folder, tmp_path):
    message = refused(tiny_folder, tmp_path, *ON_RAY, "--gamma", 99999)
    assert "Ray cannot go on" in message
    assert "gamma" in message
    assert lines_of(partial_path(tmp_path / "out.jsonl"))[1:] == []
