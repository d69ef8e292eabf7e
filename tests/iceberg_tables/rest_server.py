"""A REST catalog in Python for tests: pyiceberg checks requirements and applies updates, as the server.

    with rest_server(warehouse) as server:
        catalog = RestCatalog("rest", uri=server.uri)
        server.faults.append(Fault.answer_503_after)      # of the next commit

Metadata files are written below the warehouse, as a real server does.
"""

from __future__ import annotations

import enum
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class Fault(enum.Enum):
    """What goes wrong with a commit, before or after the server has made it."""

    BEFORE = enum.auto()
    AFTER = enum.auto()


class RestServer(ThreadingHTTPServer):
    """``tables`` are (metadata location, metadata) by (namespace, name); ``commits`` counts requests."""

    daemon_threads = True

    def __init__(self, warehouse: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.warehouse = warehouse
        self.namespaces = {"db"}
        self.tables: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        self.lock = threading.Lock()
        self.commits = 0
        self.status = 503
        self.faults: list[tuple[Fault, int | None]] = []
        self.before_commit: Callable[[], None] | None = None
        self.after_commit: Callable[[], None] | None = None
        self.down = False
        self.defaults: dict[str, str] = {}

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stage(self, namespace: str, request: dict[str, Any]) -> dict[str, Any]:
        """What a new table will be; nothing is kept of it."""
        return {
            "format-version": int(request["properties"]["format-version"]),
            "table-uuid": str(uuid.uuid4()),
            "location": request.get("location") or f"{self.warehouse}/{namespace}/{request['name']}",
            "properties": {**self.defaults, **request["properties"]},
        }

    def commit(self, key: tuple[str, str], request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the answer. pyiceberg decides."""
        from pydantic import TypeAdapter
        from pyiceberg.table.metadata import TableMetadataUtil
        from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

        requirements = [TypeAdapter(TableRequirement).validate_python(r) for r in request["requirements"]]
        updates = tuple(TypeAdapter(TableUpdate).validate_python(u) for u in request["updates"])
        with self.lock:
            held = self.tables.get(key)
            if held is None and not any(r.type == "assert-create" for r in requirements):
                return 404, failure("Table does not exist", "NoSuchTableException", 404)
            base = None if held is None else TableMetadataUtil.parse_obj(held[1])
            try:
                for requirement in requirements:
                    requirement.validate(base)
            except Exception as error:
                return 409, failure(str(error), "CommitFailedException", 409)
            if base is None:
                new = _as_json(_created(updates))
            else:
                place = None if held is None else held[0]
                applied = update_table_metadata(base, updates, metadata_location=place)
                new = _as_json(applied)
            number = 0 if held is None else int(Path(held[0]).name[:5]) + 1
            file = Path(new["location"]) / f"metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(new))
            self.tables[key] = str(file), new
            return 200, self.loaded(key)

    def loaded(self, key: tuple[str, str]) -> dict[str, Any]:
        file, metadata = self.tables[key]
        return {"metadata-location": file, "metadata": metadata, "config": {}}


def _created(updates: tuple[Any, ...]) -> Any:
    """The metadata of a new table. pyiceberg starts from an empty table of version 2."""
    from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
    from pyiceberg.table.update import update_table_metadata

    version = next(u.format_version for u in updates if u.action == "upgrade-format-version")
    empty = {2: TableMetadataV2, 3: TableMetadataV3}[version].model_construct(
        location="",
        last_column_id=0,
        schemas=[],
        current_schema_id=-1,
        partition_specs=[],
        default_spec_id=-1,
        last_partition_id=999,
        sort_orders=[],
        default_sort_order_id=-1,
        snapshots=[],
        refs={},
        properties={},
        last_updated_ms=int(time.time() * 1000),
    )
    return update_table_metadata(empty, tuple(u for u in updates if u.action != "upgrade-format-version"))


def _as_json(metadata: Any) -> dict[str, Any]:
    """The metadata as the file has it. pyiceberg itself refuses to write version 3."""
    found: dict[str, Any] = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**found, "next-row-id": found.get("next-row-id", 0)} if metadata.format_version > 2 else found


def failure(message: str, kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}


class _Handler(BaseHTTPRequestHandler):
    server: RestServer
    protocol_version = "HTTP/1.1"

    def _key(self) -> tuple[str, str]:
        parts = unquote(self.path.partition("?")[0]).split("/")
        return parts[3], parts[5]

    def do_GET(self) -> None:
        if self.server.down:
            return self._answer(503, failure("down", "ServiceUnavailable", 503))
        if "/config" in self.path:
            return self._answer(200, {"defaults": {}, "overrides": {}})
        key = self._key()
        if key not in self.server.tables:
            return self._answer(404, failure("Table does not exist", "NoSuchTableException", 404))
        return self._answer(200, self.server.loaded(key))

    def do_HEAD(self) -> None:
        self._answer(204 if self._key() in self.server.tables else 404, {})

    def do_DELETE(self) -> None:
        gone = self.server.tables.pop(self._key(), None)
        self._answer(404 if gone is None else 204, {})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = unquote(self.path).split("/")
        if parts[3] not in self.server.namespaces:
            return self._answer(404, failure("Namespace does not exist", "NoSuchNamespaceException", 404))
        if len(parts) == 5:
            if (parts[3], request["name"]) in self.server.tables:
                return self._answer(409, failure("Table exists", "AlreadyExistsException", 409))
            return self._answer(200, {"metadata": self.server.stage(parts[3], request), "config": {}})
        return self._commit((parts[3], parts[5]), request)

    def _commit(self, key: tuple[str, str], request: dict[str, Any]) -> None:
        self.server.commits += 1
        self._call("before_commit")
        fault, status = self.server.faults.pop(0) if self.server.faults else (None, None)
        if fault is Fault.BEFORE:
            return self._fail(status)
        code, answer = self.server.commit(key, request)
        self._call("after_commit")
        if fault is Fault.AFTER:
            return self._fail(status)
        return self._answer(code, answer)

    def _call(self, name: str) -> None:
        hook = getattr(self.server, name)
        setattr(self.server, name, None)
        if hook is not None:
            hook()

    def _fail(self, status: int | None) -> None:
        """An answer with this status; without one the connection breaks."""
        if status is None:
            self.close_connection = True
            self.connection.close()
            return
        self._answer(status, failure("try later", "Failed", status))

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = b"" if status == 204 or self.command == "HEAD" else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""


@contextmanager
def rest_server(warehouse: Path) -> Iterator[RestServer]:
    server = RestServer(warehouse)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
