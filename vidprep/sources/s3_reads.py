"""Ranged reads of S3 objects at a fifth of what botocore's own take of a processor: signed and sent, and nothing besides.

botocore shows the way: from the first request that it brings to a good end in a bucket, its address and the region it is
signed for are noted (the endpoint's rules, moved buckets and all), and later reads go there straight, by the same
signer and the same connection library. Whatever is not the plain answer to a plain read is left to botocore, which
tries again, follows redirects, and says what is wrong.
"""

from __future__ import annotations

import re
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

from vidprep.sources.stores import CONNECT_TIMEOUT_SECONDS, MAX_CONNECTIONS, REQUEST_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The region of a signature that we can make too (AWS General Reference, Signature Version 4).
_SIGNATURE = re.compile(r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/([^/]+)/s3/aws4_request,")
#: That the first read of a bucket is waited for; who has waited in vain asks botocore too.
_FIRST_READ_SECONDS = 0.5
_HEADERS = {"Range": "Range", "IfMatch": "If-Match"}
#: Answers that say something of the object, not of how it was asked for.
_OF_THE_OBJECT = frozenset(
    {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE}
)


class Route(NamedTuple):
    """How objects of a bucket are asked for."""

    pool: urllib3.HTTPConnectionPool
    origin: str
    """scheme and host"""
    folder: str
    """what stands before the key in a request's path"""
    region: str | None
    """signed for; None = not signed"""


class PlainReads:
    """Reads of the buckets whose way is known. Safe to use from several threads.

    Args:
        session: of botocore; says who signs, and whom to trust.
        client: its S3 client, whose requests are looked at.
    """

    def __init__(self, session: Any, client: Any) -> None:
        self._credentials = session.get_credentials()
        self._user_agent = client.meta.config.user_agent
        self._pools = urllib3.PoolManager(
            maxsize=MAX_CONNECTIONS,
            block=True,
            ca_certs=get_cert_path(session.get_config_variable("ca_bundle") or True),
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_SECONDS, read=REQUEST_TIMEOUT_SECONDS),
        )
        self._routes: dict[str, Route | None] = {}
        self._firsts: dict[str, threading.Event] = {}
        self._sent = threading.local()
        client.meta.events.register("before-send.s3.GetObject", self._note)

    def _note(self, request: Any, **_: Any) -> None:
        self._sent.request = request

    def learn(self, bucket: str, key: str) -> None:
        """Botocore has just read an object, in this thread: go the same way from now on."""
        if bucket not in self._routes:
            self._routes[bucket] = self._route(self._sent.request, quote(key, safe="/~"))

    def answered(self, bucket: str) -> None:
        """Botocore has read, or tried to: nobody need wait for what it finds."""
        self._firsts[bucket].set()

    def _known(self, bucket: str) -> Route | None:
        """The way to a bucket. Of those who ask before it is known, the first is to try botocore, and the others wait."""
        if bucket not in self._routes:
            mine = threading.Event()
            first = self._firsts.setdefault(bucket, mine)
            if first is not mine:
                first.wait(_FIRST_READ_SECONDS)
        return self._routes.get(bucket)

    def _route(self, request: Any, path: str) -> Route | None:
        """None where we could not do as botocore did."""
        parts = urlsplit(request.url)
        authorization = request.headers.get("Authorization", b"")
        signature = _SIGNATURE.match(_text(authorization))
        if not parts.path.endswith(f"/{path}") or parts.query or (authorization and not signature):
            return None
        if get_environ_proxies(request.url):
            return None
        return Route(
            pool=self._pools.connection_from_url(request.url),
            origin=f"{parts.scheme}://{parts.netloc}",
            folder=parts.path.removesuffix(path),
            region=signature[1] if signature else None,
        )

    def get(self, wanted: Mapping[str, str]) -> bytes | None:
        """The bytes that GetObject with these parameters gives; None where botocore must be asked."""
        route = self._known(wanted["Bucket"])
        if route is None:
            return None
        path = route.folder + quote(wanted["Key"], safe="/~")
        headers = self._headers(route, path, {_HEADERS[name]: wanted[name] for name in wanted if name in _HEADERS})
        try:
            answer = route.pool.urlopen(
                "GET", path, headers=headers, retries=False, redirect=False, decode_content=False
            )  # fmt: skip
        except urllib3.exceptions.HTTPError:
            return None
        if answer.status == HTTPStatus.PARTIAL_CONTENT and is_range(wanted, answer.headers.get("Content-Range")):
            return answer.data
        if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR and answer.status not in _OF_THE_OBJECT:
            self._routes[wanted["Bucket"]] = None  # this way is closed
        return None

    def _headers(self, route: Route, path: str, headers: Mapping[str, str]) -> dict[str, str]:
        request = AWSRequest("GET", route.origin + path, headers={"User-Agent": self._user_agent, **headers})
        if route.region is not None:
            S3SigV4Auth(self._credentials.get_frozen_credentials(), "s3", route.region).add_auth(request)
        return dict(request.headers.items())


def is_range(wanted: Mapping[str, str], found: str | None) -> bool:
    """Whether an answer's Content-Range begins where the range of the request does (RFC 9110, 14.4)."""
    return (found or "").startswith(wanted["Range"].replace("=", " ").partition("-")[0] + "-")


def _text(header: str | bytes) -> str:
    return header.decode() if isinstance(header, bytes) else header
