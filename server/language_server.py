"""The pygls server with one session; what it does with messages is in handlers.py."""

import asyncio
import logging
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO, cast

import psutil
from lsprotocol import types
from pygls.io_ import StdinAsyncReader, run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from sollens.server.lsp_client import LspClient
from sollens.server.session import Session
from sollens.server.worker import Worker

logger = logging.getLogger(__name__)

_PARENT_CHECK_S = 2.0


class _Protocol(LanguageServerProtocol):
    """pygls without its own documents: the session keeps them, see document.py."""

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Generator[Any, Any, None]:
        yield self._handler(types.TEXT_DOCUMENT_DID_OPEN), (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Generator[Any, Any, None]:
        yield self._handler(types.TEXT_DOCUMENT_DID_CHANGE), (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Generator[Any, Any, None]:
        yield self._handler(types.TEXT_DOCUMENT_DID_CLOSE), (params,), None

    def _handler(self, method: str) -> Any:
        return cast(dict[str, Any], self.fm.features)[method]  # pyright: ignore[reportUnknownMemberType]


class _Stdout:
    """Writes to the editor until either side has closed; what an analysis says after that is for nobody."""

    def __init__(self, stdout: BinaryIO) -> None:
        self._stdout = stdout

    def write(self, data: bytes) -> None:
        if not self._stdout.closed:
            try:
                self._stdout.write(data)
                self._stdout.flush()
            except OSError:
                self.close()

    def close(self) -> None:
        with suppress(OSError):
            self._stdout.close()


class SollensServer(LanguageServer):
    """A language server with one session. Make it on a running event loop."""

    def __init__(self) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "sollens", _version(), protocol_cls=_Protocol, converter_factory=default_converter
        )
        self.client = LspClient(self.protocol)
        self.session = Session(self.client, Worker())
        self.client.session = self.session

    async def serve(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        """Serve until the editor says exit, closes its end or is gone."""
        self.protocol.set_writer(_Stdout(stdout))
        # stdin has a thread of its own: handlers in the same pool would hold up messages.
        reader = StdinAsyncReader(stdin, ThreadPoolExecutor(max_workers=1, thread_name_prefix="stdin"))
        watch = asyncio.create_task(self._watch_parent())
        try:
            await run_async(threading.Event(), reader, self.protocol, logger, self._report_error)
        finally:
            watch.cancel()
            await self.session.end()

    def _report_error(self, error: Exception, source: type[Exception]) -> None:
        logger.error("%s: %s", source.__name__, error)

    async def _watch_parent(self) -> None:
        """End when the editor is gone without a word: a crashed one may leave its end of stdin open in other
        children."""
        while self.process_id is None:
            await asyncio.sleep(_PARENT_CHECK_S)
        try:
            parent = psutil.Process(self.process_id)
            while parent.is_running():
                await asyncio.sleep(_PARENT_CHECK_S)
        except psutil.NoSuchProcess:
            pass
        except psutil.AccessDenied:
            return
        logger.warning("the editor (process %d) is gone: ending", self.process_id)
        await self.session.end()
        os._exit(1)


def _version() -> str:
    try:
        return version("sollens")
    except PackageNotFoundError:
        return "0"
