"""The program `sollens serve`: one editor over stdin and stdout."""

import argparse
import asyncio
import logging
import os
import sys
import warnings
from typing import BinaryIO

from sollens.server.handlers import register
from sollens.server.language_server import SollensServer


def main(arguments: list[str] | None = None) -> int:
    """Serve one editor over stdin and stdout; logs go to stderr."""
    parser = argparse.ArgumentParser(prog="sollens serve", description=main.__doc__)
    parser.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--stdio", action="store_true", help="accepted for editors that say so; it is the only way")
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # pygls logs the body of every message at INFO: the user's code.
    if options.log_level != "debug":
        logging.getLogger("pygls").setLevel(logging.WARNING)
    # What Python finds odd in the user's source is no news for the server's log.
    warnings.simplefilter("ignore", SyntaxWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    stdin, stdout = _take_over_stdio()
    asyncio.run(_serve(stdin, stdout))
    return 0


async def _serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    server = SollensServer()
    register(server)
    await server.serve(stdin, stdout)


def _take_over_stdio() -> tuple[BinaryIO, BinaryIO]:
    """The protocol's streams, out of reach of prints and of child processes."""
    stdin = os.fdopen(os.dup(0), "rb")
    stdout = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return stdin, stdout


if __name__ == "__main__":
    sys.exit(main())
