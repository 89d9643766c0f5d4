"""S3 and what speaks like it, through botocore: etags in the listing, one request a read."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import parse_timestamp

from vidprep.errors import Reason, SourceError
from vidprep.records import Identity
from vidprep.sources.s3_reads import PlainReads, is_range
from vidprep.sources.stores import (
    CONNECT_TIMEOUT_SECONDS,
    MAX_ATTEMPTS,
    MAX_CONNECTIONS,
    REQUEST_TIMEOUT_SECONDS,
    endpoint_url,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REASONS = {
    "404": Reason.NOT_FOUND,
    "NoSuchKey": Reason.NOT_FOUND,
    "NoSuchBucket": Reason.NOT_FOUND,
    "412": Reason.STALE,
    "PreconditionFailed": Reason.STALE,
}
_BEYOND_END = {"416", "InvalidRange"}


class S3Store:
    """A `Store` over a botocore client, which signs, retries and keeps connections; unsigned without credentials."""

    def __init__(self) -> None:
        session = botocore.session.get_session()
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
        unsigned = {} if session.get_credentials() else {"signature_version": UNSIGNED}
        settings = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=REQUEST_TIMEOUT_SECONDS,
            retries={"total_max_attempts": MAX_ATTEMPTS, "mode": "standard"},
            max_pool_connections=MAX_CONNECTIONS,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            **unsigned,
        )
        region = session.get_config_variable("region") or "us-east-1"
        self._client = session.create_client("s3", endpoint_url=endpoint_url(), region_name=region, config=settings)
        self._plain = PlainReads(session, self._client)

    def stat(self, path: str) -> Identity | None:
        """As Store.stat."""
        bucket, _, key = path.partition("/")
        if not key or key.endswith("/"):
            return None
        try:
            with _source_errors():
                facts = self._client.head_object(Bucket=bucket, Key=key)
        except SourceError as error:
            if error.reason == Reason.NOT_FOUND and self._is_folder(bucket, key):
                return None
            raise
        return _identity(facts, facts["ContentLength"])

    def _is_folder(self, bucket: str, key: str) -> bool:
        with _source_errors():
            return bool(self._client.list_objects_v2(Bucket=bucket, Prefix=f"{key}/", MaxKeys=1)["KeyCount"])

    def list(self, path: str) -> Iterator[tuple[str, Identity]]:
        """As Store.list; a page of 1,000 at a time."""
        bucket, _, key = path.rstrip("/").partition("/")
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{key}/" if key else "")
        with _source_errors():
            for page in pages:
                for facts in page.get("Contents", ()):
                    if not facts["Key"].endswith("/"):  # consoles make such objects to show an empty folder
                        yield f"{bucket}/{facts['Key']}", _identity(facts, facts["Size"])

    def get(self, path: str, offset: int, size: int, etag: str | None) -> bytes:
        """As Store.get."""
        bucket, _, key = path.partition("/")
        wanted = {"Bucket": bucket, "Key": key, "Range": f"bytes={offset}-{offset + size - 1}"}
        if etag is not None:
            wanted["IfMatch"] = f'"{etag}"'
        data = self._plain.get(wanted)
        if data is not None:
            return data
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                return self._read(wanted)
            except BotoCoreError:  # the body broke off: botocore repeats requests, not bodies
                time.sleep(0.05 * 2**attempt)
        with _source_errors():
            return self._read(wanted)

    def _read(self, wanted: dict[str, str]) -> bytes:
        try:
            answer = self._client.get_object(**wanted)
            if not is_range(wanted, answer.get("ContentRange")):
                answer["Body"].close()
                raise SourceError("the store sends other bytes than the range that was asked for")
            data = bytes(answer["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] in _BEYOND_END:
                return b""
            raise _refusal(error) from error
        else:
            self._plain.learn(wanted["Bucket"], wanted["Key"])
            return data
        finally:
            self._plain.answered(wanted["Bucket"])

    def put(self, path: str, file: Path) -> None:
        """As Store.put."""
        bucket, _, key = path.partition("/")
        with _source_errors(), file.open("rb") as body:
            self._client.put_object(Bucket=bucket, Key=key, Body=body)


def _timestamp(text: Any) -> datetime:
    """Listings tell ISO 8601, a thousand a page, and botocore tries every form there is; the rest is for it."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        parsed: datetime = parse_timestamp(text)
        return parsed


def _identity(facts: Any, size_bytes: int) -> Identity:
    modified = facts.get("LastModified")
    return Identity(
        size_bytes=size_bytes,
        mtime_ns=None if modified is None else int(modified.timestamp()) * 1_000_000_000,
        etag=facts.get("ETag", "").strip('"') or None,
    )


@contextmanager
def _source_errors() -> Iterator[None]:
    """Whatever botocore raises, as SourceError."""
    try:
        yield
    except ClientError as error:
        raise _refusal(error) from error
    except BotoCoreError as error:
        raise SourceError(f"{type(error).__name__}: {error}") from error


def _refusal(error: ClientError) -> SourceError:
    reason = _REASONS.get(error.response["Error"]["Code"], Reason.UNREADABLE)
    return SourceError(str(error), reason=reason)
