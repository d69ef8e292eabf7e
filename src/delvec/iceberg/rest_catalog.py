"""Tables of a REST catalog: the server applies updates and writes the metadata files.

    GET  …/namespaces/db/tables/orders    the newest metadata, and credentials of the store
    POST …/namespaces/db/tables           stage-create: where a new table goes; nothing is created yet
    POST …/namespaces/db/tables/orders    requirements and updates

    409                              a requirement does not hold: another writer was first
    500, 502, 503, 504, no answer    the server may have committed; the newest metadata tells

A commit is never sent again. Only a request that the server refused because a token had expired is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson

from delvec import location
from delvec.errors import DelvecError, InvalidOperationError, StorageError
from delvec.iceberg.catalog_errors import catalog_errors, reason_of
from delvec.iceberg.catalog_tables import (
    Identifier,
    LoadedTable,
    StagedTable,
    already_exists,
    dropped,
    namespace_missing,
)
from delvec.iceberg.commit_requirements import requirements
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.metadata import TableMetadata, parse_metadata
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.swaps import (
    BaseFile,
    SwapOutcome,
    Swapped,
    SwapUnknown,
    Taken,
    shows_commit,
    verify_same_table,
)
from delvec.iceberg.updated_metadata import apply_updates
from delvec.storage import Storage

_EXPIRED = (401, 419)
_LOOKUP_PAUSES = (0.0, 0.5, 2.0)  # a server that lost its answer may still be at work


class RestCatalogTable:
    """A table of the catalog ``catalog``, an object of pyiceberg's class RestCatalog."""

    takes_trees: ClassVar[bool] = False

    def __init__(self, catalog: Any, name: str, identifier: Identifier) -> None:
        self._catalog = catalog
        self._name = name
        self._identifier = identifier

    def load(self) -> LoadedTable:
        """The newest metadata file, by pyiceberg unless it cannot parse the metadata."""
        from pydantic import ValidationError  # noqa: PLC0415

        try:
            table = self._catalog.load_table(self._identifier)
        except ValidationError:  # a variant column
            response = self._get()
            response.raise_for_status()
            answer = JsonObject.parse(response.content, "the catalog's answer")
            place = answer.text("metadata-location", "")
            return LoadedTable(place, self._properties(answer, place))
        return LoadedTable(table.metadata_location, dict(table.io.properties))

    def stage(self, updates: Sequence[Update]) -> StagedTable:
        """Where the table that the updates create goes, as the server says."""
        with catalog_errors(self._name, self._identifier):
            response = self._post("create_table", _create_request(self._identifier, updates))
            if response.status_code == 404:
                raise namespace_missing(self._name, self._identifier)
            if response.status_code == 409:
                raise already_exists(self._name, self._identifier)
            self._verify_accepted(response)
            answer = JsonObject.parse(response.content, "the catalog's answer")
            metadata = answer.child("metadata")
            return StagedTable(
                location=metadata.text("location"),
                properties=self._properties(answer, metadata.text("location")),
                table_uuid=metadata.text_or_none("table-uuid"),
                table_properties=metadata.text_map("properties"),
            )

    def verify_writable(self) -> None:
        """Every table of such a catalog can be written to."""

    def commit(
        self,
        storage: Storage,  # noqa: ARG002 - as the others
        base: BaseFile | None,
        updates: Sequence[Update],
        now_ms: int,
    ) -> SwapOutcome:
        """Send the updates. If the answer is lost, or another writer was first, the table is read."""
        if base is not None:  # what Iceberg does not allow is refused before it is sent
            apply_updates(base.metadata, updates, now_ms=now_ms, file=base.path)
        body = {
            "identifier": {"namespace": list(self._identifier[:-1]), "name": self._identifier[-1]},
            "requirements": requirements(None if base is None else base.metadata, updates),
            "updates": list(updates),
        }
        try:
            response = self._post("update_table", body)
        except Exception as error:
            if _was_not_sent(error):
                raise
            return self._after_lost_answer(base, updates, reason_of(error))
        status = response.status_code
        if status == 200:
            return self._swapped(response, base, updates)
        if status == 409:
            return self._after_conflict(base, updates)
        if status >= 500 and status != 501:
            return self._after_lost_answer(base, updates, f"status {status}: {_message(response)}")
        if status == 404:
            missing = namespace_missing if base is None else dropped
            raise missing(self._name, self._identifier)
        return self._after_refusal(response, base)

    def _swapped(self, response: Any, base: BaseFile | None, updates: Sequence[Update]) -> SwapOutcome:
        try:
            return Swapped(_file_in(response))
        except DelvecError as error:
            return self._after_lost_answer(base, updates, str(error))

    def _after_conflict(self, base: BaseFile | None, updates: Sequence[Update]) -> SwapOutcome:
        """Another writer was first; or a proxy sent this commit twice, and the second one was refused."""
        try:
            now = self._newest()
        except Exception as error:  # the server is down now
            return SwapUnknown(reason_of(error))
        if now is not None and _is_own(updates) and shows_commit(now.metadata, updates):
            return Swapped(now)
        if base is not None and now is not None:
            verify_same_table(base.metadata, now.metadata.table_uuid, self._place)
        return Taken()

    def _after_refusal(self, response: Any, base: BaseFile | None) -> SwapOutcome:
        """The server refused the request. Some servers also do so if the table has changed meanwhile."""
        if response.status_code == 400 and base is not None:
            with catalog_errors(self._name, self._identifier):
                now = self._newest()
            if now is not None and now.path != base.path:
                verify_same_table(base.metadata, now.metadata.table_uuid, self._place)
                return Taken()
        with catalog_errors(self._name, self._identifier):
            self._verify_accepted(response)
        raise StorageError(f"catalog {self._name!r} answered {response.status_code}", path=self._place)

    def _after_lost_answer(
        self, base: BaseFile | None, updates: Sequence[Update], reason: str
    ) -> SwapOutcome:
        """Read the table, until it shows the commit or one that excludes it."""
        for pause in _LOOKUP_PAUSES:
            time.sleep(pause)
            try:
                now = self._newest()
            except Exception:  # the server is still down
                continue
            if now is None:
                continue
            if _is_in(now.metadata, updates):
                return Swapped(now)
            if _is_excluded(now.metadata, base, updates):
                return Taken()
        return SwapUnknown(f"{reason}; {self._place} does not show the commit")

    def _newest(self) -> BaseFile | None:
        """The newest metadata; None if there is no such table."""
        response = self._get()
        if response.status_code == 404:
            return None
        response.raise_for_status()
        return _file_in(response)

    def _get(self) -> Any:
        from pyiceberg.catalog.rest import Endpoints  # noqa: PLC0415

        place = self._catalog._split_identifier_for_path(self._identifier)
        return self._catalog._session.get(self._catalog.url(Endpoints.load_table, prefixed=True, **place))

    def _post(self, endpoint: str, body: Mapping[str, Any]) -> Any:
        from pyiceberg.catalog.rest import Endpoints  # noqa: PLC0415

        place = self._catalog._split_identifier_for_path(self._identifier)
        if endpoint == "create_table":
            place = {"namespace": place["namespace"]}
        url = self._catalog.url(getattr(Endpoints, endpoint), prefixed=True, **place)
        response = self._catalog._session.post(url, data=orjson.dumps(body))
        if response.status_code in _EXPIRED:
            self._catalog._refresh_token()
            response = self._catalog._session.post(url, data=orjson.dumps(body))
        return response

    def _properties(self, answer: JsonObject, place: str) -> dict[str, str]:
        """The catalog's configuration, with what the answer says of this table and the store of ``place``."""
        credentials = [
            (item.text("prefix"), item.text_map("config")) for item in answer.children("storage-credentials")
        ]
        fitting = [item for item in credentials if place.startswith(item[0])]
        vended = max(fitting, key=lambda item: len(item[0]))[1] if fitting else {}
        return {**self._catalog.properties, **answer.text_map("config"), **vended}

    def _verify_accepted(self, response: Any) -> None:
        if response.status_code == 200:
            return
        message = (
            f"catalog {self._name!r} refused the request with {response.status_code}: {_message(response)}"
        )
        if response.status_code in (400, 406, 422, 501):
            raise InvalidOperationError(f"{message}: {self._place}")
        raise StorageError(message, path=self._place)

    @property
    def _place(self) -> str:
        return f"{self._name}.{'.'.join(self._identifier)}"


def _create_request(identifier: Identifier, updates: Sequence[Update]) -> dict[str, Any]:
    """The request to stage the table that the updates create."""
    by_action = {update["action"]: update for update in updates}
    version = by_action["upgrade-format-version"]["format-version"]
    request = {
        "name": identifier[-1],
        "schema": by_action["add-schema"]["schema"],
        "partition-spec": by_action["add-spec"]["spec"],
        "write-order": by_action["add-sort-order"]["sort-order"],
        "stage-create": True,
        "properties": {"format-version": str(version), **by_action["set-properties"]["updates"]},
    }
    place = by_action["set-location"]["location"]
    return {**request, "location": place} if place else request


def _file_in(response: Any) -> BaseFile:
    answer = JsonObject.parse(response.content, "the catalog's answer")
    file = location.unencoded(answer.text("metadata-location"))
    return BaseFile(file, parse_metadata(orjson.dumps(answer.child("metadata").members), file))


def _was_not_sent(error: Exception) -> bool:
    """Whether no connection was made."""
    causes = [error, *(getattr(cause, "reason", None) for cause in error.args)]
    names = {cls.__name__ for cause in causes for cls in type(cause).__mro__}
    return bool(names & {"NewConnectionError", "ConnectTimeoutError", "ConnectTimeout"})


def _is_own(updates: Sequence[Update]) -> bool:
    """Whether metadata can show that it has just these updates: they have an id that no other commit has."""
    return any(update["action"] in ("add-snapshot", "assign-uuid") for update in updates)


def _is_in(metadata: TableMetadata, updates: Sequence[Update]) -> bool:
    """Whether the metadata has the updates. Without an id of their own: whether they would change nothing."""
    if _is_own(updates):
        return shows_commit(metadata, updates)
    left = [_still_to_do(metadata, update) for update in updates]
    try:
        members = apply_updates(metadata, [update for update in left if update], now_ms=0, file=None)
    except DelvecError:
        return False
    same = {**metadata.raw, "snapshot-log": members.get("snapshot-log")}
    return all(same.get(key) == value for key, value in members.items() if value)


def _still_to_do(metadata: TableMetadata, update: Update) -> Update | None:
    """The update without the snapshots that are gone already; None if nothing is left."""
    if update["action"] != "remove-snapshots":
        return update
    ids = [number for number in update["snapshot-ids"] if number in metadata.snapshots]
    return {**update, "snapshot-ids": ids} if ids else None


def _is_excluded(metadata: TableMetadata, base: BaseFile | None, updates: Sequence[Update]) -> bool:
    """Whether a requirement of the commit no longer holds, so that the server will never apply it."""
    if base is None:
        return True
    if base.metadata.table_uuid is not None and metadata.table_uuid != base.metadata.table_uuid:
        return True
    return requirements(metadata, updates) != requirements(base.metadata, updates)


def _message(response: Any) -> str:
    """The server's message, short."""
    try:
        answer = JsonObject.parse(response.content, "the answer").child("error")
        return reason_of(ValueError(answer.text("message", "")))
    except DelvecError:
        return reason_of(ValueError(response.text))
