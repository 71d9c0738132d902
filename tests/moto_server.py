"""moto's S3 server, a request at a time: of two that create an object where none is, it lets both otherwise."""

from __future__ import annotations

import argparse
import io
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int, help="of the loopback address")
    port = parser.parse_args().port
    moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def application(request: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # A body that comes slowly, or not to its end, holds up nobody else.
        body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
        request["wsgi.input"] = io.BytesIO(body)
        with turn:
            return list(moto(request, start_response))

    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
