"""Programs whose large allocations are blocks of the heap: alone, and under ``kedge run --protect-heap``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import processes_with

BUILD = Path(os.environ["BUILD_FOLDER"])
LIBRARY = BUILD / "lib" / "kedge" / "libkedge-malloc.so"
STEPS = BUILD / "test" / "malloc_steps"
pytestmark = pytest.mark.usefixtures("run_folder")


def run(*command: object, expect: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KEDGE_JOB_NAME": "malloc", "LD_PRELOAD": str(LIBRARY), **settings}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def lines(*steps: str, **settings: str) -> list[str]:
    return run(STEPS, *steps, **settings).stdout.splitlines()


def test_what_goes_where() -> None:
    assert lines("init", "functions", "end") == [
        "malloc: heap", "grown: heap", "shrunk: heap", "small: elsewhere", "large again: heap", "calloc: heap", "reallocarray: heap",
        "posix_memalign: heap", "aligned_alloc: heap", "aligned beyond: elsewhere", "aligned and small: elsewhere",
        "below the limit: elsewhere", "of the C library: elsewhere",
    ]  # fmt: skip


def test_the_limit_is_a_setting() -> None:
    told = lines("init", "functions", "end", KEDGE_HEAP_MALLOC_FROM="32KiB")
    assert "below the limit: heap" in told and "of the C library: elsewhere" in told
    refused = run(STEPS, "init", expect=1, KEDGE_HEAP_MALLOC_FROM="1KiB")
    assert "heap.malloc_from" in refused.stdout


def test_libraries_that_are_named_allocate_so_too() -> None:
    assert "of the C library: heap" in lines("init", "functions", "end", KEDGE_HEAP_MALLOC_BY="libother.so libc.so.6")
    assert "of the C library: elsewhere" in lines("init", "functions", "end", KEDGE_HEAP_MALLOC_BY="libc.so")


def test_blocks_and_the_pointers_in_them_come_back() -> None:
    assert lines("init", "list", "block", "fill", "checkpoint", "list") == []
    assert lines("init", "restart", "count", "filled", "resize", "free-list", "end") == ["list of 10", "filled", "resized"]


def test_blocks_that_are_allocated_before_the_restart_get_their_content_back() -> None:
    lines("init", "block", "fill", "list", "checkpoint")
    assert lines("init", "block", "restart", "filled", "count", "end") == ["filled", "list of 10"]


def test_a_block_that_lies_in_the_way_is_refused_before_anything_is_overwritten() -> None:
    lines("init", "block", "fill", "list", "checkpoint")
    refused = run(STEPS, "init", "larger", "restart", expect=1).stdout
    assert "the program holds a block of 2097152 bytes at 0x" in refused and "call kedge_restart before" in refused


def test_a_block_that_the_version_does_not_have_stays() -> None:
    lines("init", "list", "checkpoint")  # and no block
    assert lines("init", "list", "list", "restart", "count", "block", "fill", "filled", "free-list", "end") == ["list of 10", "filled"]


def test_a_rollback_in_the_same_process() -> None:
    assert lines("init", "block", "fill", "list", "checkpoint", "wipe", "free-list", "filled", "restart", "filled", "count", "end") == [
        "not filled", "filled", "list of 10",
    ]  # fmt: skip


def test_what_is_freed_is_in_no_later_version() -> None:
    lines("init", "list", "block", "fill", "free-list", "checkpoint")
    assert lines("init", "restart", "count", "filled") == ["list of 0", "filled"]


def test_what_it_costs_is_told() -> None:
    told = lines("init", "costs", "end")
    assert len(told) == 4 and all(re.fullmatch(r"\d+ KiB: [\d.]+ us, [\d.]+ us in the heap", line) for line in told)


def test_threads_and_checkpoints_at_the_same_time() -> None:
    assert lines("init", "threads", "end") == ["threads"]


def test_a_forked_child_has_memory_of_its_own() -> None:
    assert lines("init", "forked", "end") == ["forked"]


def test_call_backs_get_memory_elsewhere() -> None:
    assert lines("init", "callbacks", "end") == ["callbacks"]


def test_memory_stays_after_the_end_of_the_context() -> None:
    assert lines("init", "block", "fill", "list", "end", "filled", "resize", "filled", "free-list") == ["filled", "resized", "filled"]


def test_what_is_allocated_before_the_begin_is_said() -> None:
    said = run(STEPS, "freed-before", "before", "init", "free-before", "end").stderr
    assert "1 large allocations, of 1048576 bytes, were made before kedge_init" in said
    assert "before kedge_init" not in run(STEPS, "freed-before", "init", "end").stderr
    assert "before kedge_init" not in run(STEPS, "before", "free-before", "init", "end").stderr


def test_a_heap_that_is_full_is_said_and_gives_no_memory() -> None:
    done = run(STEPS, "init", "full", "end", KEDGE_HEAP_SIZE="16MiB")
    assert done.stdout == "full after 14\n" and "set heap.size to more" in done.stderr


def test_a_place_that_is_taken_ends_the_begin() -> None:
    refused = run(STEPS, "init", expect=1, KEDGE_HEAP_ADDRESS="0x7fffffe00000").stdout
    assert "heap.address" in refused


def test_containers_of_cpp() -> None:
    program = BUILD / "test" / "malloc_containers"
    run(program, "first")
    assert run(program).stdout == "containers came back\n"


def test_python_is_refused() -> None:
    refused = run(sys.executable, "-c", "import kedge; kedge.Context('python')", expect=1, PYTHONPATH=str(BUILD / "python")).stderr
    assert "UnsupportedError" in refused and "Context.empty" in refused


def test_programs_without_kedge_run_as_ever() -> None:
    assert run("sh", "-c", "head -c 1000000 /dev/zero | sort | wc -c").stdout.strip() == "1000001"


@pytest.mark.needs("MPI")
def test_a_mesh_of_patches_goes_on_after_a_kill(request: pytest.FixtureRequest) -> None:
    patches = BUILD / "examples" / "patches"

    def start(job: str) -> subprocess.Popen[str]:
        command = [BUILD / "bin" / "kedge", "run", "--ranks", "2", "--job", job, "--back-off", "0s", "--protect-heap", "--", patches, "300"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def sums(output: str) -> list[str]:
        return sorted(re.findall(r"rank \d: \d+ patches, checksum [0-9A-F]{16}", output))

    whole, errors = start("whole").communicate(timeout=240)
    assert len(sums(whole)) == 2, whole + errors
    killed = start("killed")
    request.addfinalizer(killed.kill)
    assert killed.stdout is not None
    while "checkpoint 30" not in killed.stdout.readline():
        assert killed.poll() is None
    ranks = [pid for pid in processes_with([f"KEDGE_NODE={os.environ['KEDGE_NODE']}".encode()]) if Path(f"/proc/{pid}/exe").resolve() == patches]
    os.kill(ranks[0], signal.SIGKILL)
    last, errors = killed.communicate(timeout=240)
    assert killed.returncode == 0, last + errors
    assert re.search(r"continuing from step \d+0 with \d+ patches", last), last + errors
    assert sums(last) == sums(whole)
