"""Whoever uploads is killed at each step of an upload: nothing acknowledged is lost, and gc leaves nothing of it behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from servers import ACCESS_KEY, BUCKET, SECRET_KEY
from tool import kedge, kedge_json
from waiting import until

pytestmark = pytest.mark.slow
POINTS = ("s3-upload-begun", "s3-upload-marked", "s3-complete-before", "s3-completed")

# Takes versions from the newest on, 12 MiB each: parts of an upload, the last one not whole. Says which ones are safe.
PROGRAM = textwrap.dedent(
    """
    import sys
    import numpy as np
    from kedge import Context, Level
    mode, last = sys.argv[1], int(sys.argv[2])
    array = np.zeros(12 << 17)
    with Context("points", settings={"job.mode": mode, "job.lease": "1s", "keep.versions": 9}) as context:
        context.protect(0, array)
        at = 0
        if (newest := context.newest("k")) is not None:
            context.restart("k")
            at = int(array[0])
            whole = np.random.default_rng(at).random(array.size)
            whole[0] = at
            assert at == newest and (array == whole).all(), f"version {newest} is not whole"
            print("restored", at, flush=True)
        for version in range(at + 1, last + 1):
            array[:] = np.random.default_rng(version).random(array.size)
            array[0] = version
            context.checkpoint("k", version)
            context.wait("k", version, Level.STORE)
            print("safe", version, flush=True)
    """
)


class Bucket:
    """What a server says of a store, without Kedge."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        self.client: Any = boto3.client("s3", endpoint_url=endpoint, **keys)
        self.prefix = prefix

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self.prefix)
        return [entry["Key"].removeprefix(self.prefix) for page in pages for entry in page.get("Contents", [])]

    def uploads(self) -> list[str]:
        listed = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix)
        return [upload["Key"].removeprefix(self.prefix) for upload in listed.get("Uploads", [])]


@pytest.fixture
def bucket(s3_store: str) -> Bucket:
    match = re.match(rf"s3://{BUCKET}/(.*)\?", s3_store)
    assert match
    return Bucket(os.environ["AWS_ENDPOINT_URL"], match[1] + "/")


def run(mode: str, last: int, kill_point: str = "") -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, KEDGE_TEST_KILL_POINT=kill_point)
    command = [sys.executable, "-c", PROGRAM, mode, str(last)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def numbers(output: str, word: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{word} (\d+)$", output, re.MULTILINE)]


def data_objects(versions: list[int]) -> set[str]:
    """The names of the objects that the records of these versions name."""
    said = (kedge_json("inspect", f"k@{version}", "--chunks") for version in versions)
    return {name for one in said for name in re.findall(r"data/[\w.-]+", str(one))}


def remains(bucket: Bucket) -> list[str]:
    """What lies in the store and no record of a complete version names."""
    versions = sorted(version["version"] for version in kedge_json("ls", "k")["versions"])
    named = data_objects(versions)
    keys = bucket.keys()
    nameless = [key for key in keys if "/data/" in key and key[key.index("data/") :] not in named]
    temporary = [key for key in keys if key.endswith(".tmp") and not key.startswith("kedge.conditional-writes")]
    return nameless + temporary + [f"upload of {key}" for key in bucket.uploads()]


def collect(bucket: Bucket) -> list[str]:
    """What remains after a collection."""
    kedge("gc", "--yes", "--incomplete-age", "0", "--orphan-age", "0")
    return remains(bucket)


# async: the agent uploads, and is killed at its second object; its successor removes what it finds. sync: the application uploads,
# and nobody comes after it but gc. The store is looked at before a launch goes on from there, and after.
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_step_of_an_upload(
    bucket: Bucket, run_folder: Path, end_own_agent: Callable[[], None], point: str, mode: str
) -> None:
    killed = run(mode, 2, f"{point}:2")
    assert (killed.returncode == -signal.SIGKILL) == (mode == "sync"), killed.stdout + killed.stderr
    safe = numbers(killed.stdout, "safe")
    assert safe, "nothing to lose"
    end_own_agent()
    shutil.rmtree(run_folder, ignore_errors=True)
    assert remains(bucket) != [] or mode == "async"
    # A server says to whole seconds when an upload began: that one is older than none is certain a moment later.
    until(lambda: collect(bucket) == [], 10)
    resumed = run(mode, 3)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert numbers(resumed.stdout, "restored")[0] >= safe[-1]
    assert numbers(resumed.stdout, "safe")[-1] == 3
    end_own_agent()
    kedge("verify")
    assert collect(bucket) == []
