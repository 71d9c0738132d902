"""A bucket over TLS: certificates are looked at, whoever has signed them; a bucket may be part of the server's name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from servers import ACCESS_KEY, BUCKET, SECRET_KEY
from tls import Front, tls_front
from tool import kedge, kedge_json, kedge_text

from kedge import Context, Level

VIRTUAL = f"{BUCKET}.localhost"  # libcurl takes every name below localhost for this machine's


@pytest.fixture
def front(moto: str, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    port = urlsplit(moto).port
    assert port is not None
    with tls_front(port, tmp_path, ["localhost", VIRTUAL]) as front:
        yield front


def store_at(front: Front, tmp_path: Path, host: str = "localhost", options: str = "") -> str:
    return f"s3://{BUCKET}/{tmp_path.name}?endpoint=https://{host}:{front.port}{options}"


def write_and_read(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_STORE_PATH", store)
    field = np.random.default_rng(7).random(12 << 17)  # 12 MiB: more than a part
    with Context("encrypted") as context:
        context.protect(0, field)
        context.checkpoint("k", 1)
        context.wait("k", 1, Level.STORE)
    kedge("verify")
    assert [version["version"] for version in kedge_json("ls")["versions"]] == [1]


@pytest.mark.parametrize("said_in", ["path", "environment"])
def test_a_server_whose_authority_is_named_is_trusted(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_own_agent: Callable[[], None], said_in: str
) -> None:
    if said_in == "environment":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(front.authority))
    write_and_read(store_at(front, tmp_path, options=f"&ca={front.authority}" if said_in == "path" else ""), monkeypatch)
    end_own_agent()
    assert set(front.names) == {"localhost"}


def test_the_bucket_is_part_of_the_servers_name(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_own_agent: Callable[[], None]
) -> None:
    write_and_read(store_at(front, tmp_path, options=f"&addressing=virtual&ca={front.authority}"), monkeypatch)
    end_own_agent()
    assert set(front.names) == {VIRTUAL}
    # What was written is found by the other way, too.
    by_path = store_at(front, tmp_path, options=f"&addressing=path&ca={front.authority}")
    kedge("verify", "--store", by_path)
    assert [version["version"] for version in kedge_json("ls", "--store", by_path)["versions"]] == [1]


# For none of these is it asked for half a minute, as a server that is away is.
def test_a_server_that_is_not_trusted_is_named_in_plain_words(front: Front, tmp_path: Path) -> None:
    begin = time.monotonic()
    said = kedge_text("ls", "--store", store_at(front, tmp_path), expect=3)
    assert "the server's certificate is not trusted" in said
    assert "ca=FILE" in said and "AWS_CA_BUNDLE" in said
    said = kedge_text("ls", "--store", store_at(front, tmp_path, "127.0.0.1", f"&ca={front.authority}"), expect=3)
    assert "the server's certificate is not trusted" in said and "127.0.0.1" in said
    missing = tmp_path / "missing.pem"
    said = kedge_text("ls", "--store", store_at(front, tmp_path, options=f"&ca={missing}"), expect=3)
    assert f"the file of certificates to trust cannot be used: {missing}" in " ".join(said.split())
    assert time.monotonic() - begin < 20
