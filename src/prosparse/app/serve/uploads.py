"""Reception of uploaded files, which are written as they arrive.

File names are sent by the browser and are not trusted. `clean_name` retains letters, digits and a
few marks, and each file is in a separate folder with a generated name.
"""

from __future__ import annotations

import asyncio
import shutil
import unicodedata
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

DEFAULT_MAX_BYTES = 4 * 2**30  # maximum size of an upload
MAX_IDLE_SECONDS = 60.0  # maximum time without data, in seconds
MAX_FIELD_BYTES = 2**20  # maximum total size of the fields of a form that are not files
MAX_FIELDS = 10_000
MAX_PARTS = 64
MIN_FREE_BYTES = 2**28  # minimum free space on the disk after an upload
MAX_NAME_LENGTH = 100
_MARKS = " ._-()+,=@#"


class UploadError(Exception):
    """Error for an upload that is not accepted."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


class Upload(NamedTuple):
    """Uploaded file."""

    name: str
    path: Path


class Form(NamedTuple):
    """Fields and files of a form."""

    fields: dict[str, str]
    files: list[Upload]


def clean_name(name: str) -> str:
    """Convert a name to a valid file name on every system."""
    name = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    kept = "".join(c if c.isalnum() or c in _MARKS else "_" for c in name).rstrip(" .")
    stem, dot, extension = kept.rpartition(".")
    stem = (stem if dot else kept).lstrip("-. ") or "table"
    extension = "".join(c for c in extension if c.isalnum())[:10] if dot else ""
    if extension == "gz" and "." in stem:  # extensions such as .csv.gz are retained
        stem, _, inner = stem.rpartition(".")
        extension = f"{inner[:10]}.gz"
    while len((stem or "table").encode()) > MAX_NAME_LENGTH:
        stem = stem[:-1]
    return f"{stem or 'table'}.{extension}" if extension else stem


async def read_form(
    request: Request, new_path: Callable[[str], Path], max_bytes: int = DEFAULT_MAX_BYTES
) -> Form:
    """Read a form whose files are written to ``new_path(name)`` as they arrive.

    Each file is in a separate folder, which is removed if the form cannot be read.
    """
    content_type, parameters = parse_options_header(request.headers.get("content-type", ""))
    boundary = parameters.get(b"boundary")
    if content_type != b"multipart/form-data" or not boundary:
        raise UploadError(400, "The request contains no file.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes + MAX_FIELD_BYTES:
        raise _too_large(max_bytes)
    writer = _FormWriter(new_path, max_bytes)
    try:
        parser = MultipartParser(boundary, writer.callbacks())
        async for chunk in _chunks(request):
            writer.check_disk()
            # Files are written in another thread, because a slow disk must not block the server.
            await asyncio.to_thread(parser.write, chunk)
        parser.finalize()
        if not writer.complete:
            raise UploadError(400, "The upload is incomplete. Upload the file again.")
    except BaseException as error:
        writer.remove()
        raise _to_upload_error(error) from None
    return Form(writer.fields, writer.files)


def _to_upload_error(error: BaseException) -> BaseException:
    if isinstance(error, FormParserError):
        return UploadError(400, "The upload is damaged. Upload the file again.")
    if isinstance(error, ClientDisconnect):
        return UploadError(400, "The upload was interrupted.")
    if isinstance(error, OSError):
        reason = error.strerror or "unknown reason"
        return UploadError(507, f"The file cannot be stored ({reason}).")
    return error


async def read_fields(request: Request) -> list[tuple[str, str]]:
    """Read the fields of a form without files."""
    body = bytearray()
    async for chunk in _chunks(request):
        body += chunk
        if len(body) > MAX_FIELD_BYTES:
            raise UploadError(413, "The form is too long.")
    try:
        return parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise UploadError(413, f"A form has at most {MAX_FIELDS:,} fields.") from None


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    """Yield the body of a request; limit the pauses of the sender."""
    stream = request.stream().__aiter__()
    while True:
        try:
            yield await asyncio.wait_for(anext(stream), MAX_IDLE_SECONDS)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise UploadError(408, "The upload stopped. Upload the file again.") from None


def _too_large(max_bytes: int) -> UploadError:
    return UploadError(
        413,
        f"The file is larger than the limit of {format_size(max_bytes)}. Analyse it with "
        "`prosparse select FILE`, or start the page with a higher --max-upload.",
    )


class _FormWriter:
    """Callbacks of the parser, which write files and collect fields."""

    def __init__(self, new_path: Callable[[str], Path], max_bytes: int):
        self.new_path, self.max_bytes = new_path, max_bytes
        self.fields: dict[str, str] = {}
        self.files: list[Upload] = []
        self.complete = False
        self.n_parts = self.n_bytes = self.n_field_bytes = 0
        self.header_name = self.header_value = b""
        self.headers: dict[bytes, bytes] = {}
        self.name, self.value = "", bytearray()
        self.file: IO[bytes] | None = None

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self.begin_part,
            "on_part_data": self.add_data,
            "on_part_end": self.end_part,
            "on_header_field": self.add_header_name,
            "on_header_value": self.add_header_value,
            "on_header_end": self.end_header,
            "on_headers_finished": self.end_headers,
            "on_end": self.end,
        }

    def check_disk(self) -> None:
        if self.files and shutil.disk_usage(self.files[-1].path.parent).free < MIN_FREE_BYTES:
            raise UploadError(507, "The disk is full. Free some space, and upload the file again.")

    def begin_part(self) -> None:
        self.n_parts += 1
        if self.n_parts > MAX_PARTS:
            raise UploadError(413, f"A form has at most {MAX_PARTS} parts.")
        self.headers, self.name, self.value = {}, "", bytearray()

    def add_header_name(self, data: bytes, start: int, end: int) -> None:
        self.header_name += data[start:end]

    def add_header_value(self, data: bytes, start: int, end: int) -> None:
        self.header_value += data[start:end]

    def end_header(self) -> None:
        self.headers[self.header_name.lower()] = self.header_value
        self.header_name = self.header_value = b""

    def end_headers(self) -> None:
        _, parameters = parse_options_header(self.headers.get(b"content-disposition", b""))
        self.name = parameters.get(b"name", b"").decode("utf-8", "replace")
        given = parameters.get(b"filename", b"").decode("utf-8", "replace")
        if b"filename" in parameters and given:
            name = clean_name(given)
            path = self.new_path(name)
            self.file = path.open("xb")
            self.files.append(Upload(name, path))

    def add_data(self, data: bytes, start: int, end: int) -> None:
        if self.file is None:
            self.n_field_bytes += end - start
            if self.n_field_bytes > MAX_FIELD_BYTES:
                raise UploadError(413, "The fields of the form are too long.")
            self.value += data[start:end]
            return
        self.n_bytes += end - start
        if self.n_bytes > self.max_bytes:
            raise _too_large(self.max_bytes)
        self.file.write(data[start:end])

    def end_part(self) -> None:
        if self.file is None:
            self.fields[self.name] = self.value.decode("utf-8", "replace")
        self.close()

    def end(self) -> None:
        self.complete = True

    def remove(self) -> None:
        self.close()
        for upload in self.files:
            shutil.rmtree(upload.path.parent, ignore_errors=True)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def format_size(n_bytes: float) -> str:
    """Format a size in the largest unit in which it is at least 1."""
    for unit in ("bytes", "KB", "MB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}" if unit != "bytes" else f"{n_bytes:.0f} bytes"
        n_bytes /= 1024
    return f"{n_bytes:.3g} GB"
