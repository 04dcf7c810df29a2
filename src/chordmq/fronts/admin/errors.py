"""What our errors are in HTTP, and the one form that every refusal has."""

import math
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from chordmq import errors
from chordmq.errors import ChordMQError

RETRY_AFTER_S = "1"

STATUSES: dict[type[ChordMQError], HTTPStatus] = {
    errors.AuthenticationFailed: HTTPStatus.UNAUTHORIZED,
    errors.ClusterAccessDenied: HTTPStatus.FORBIDDEN,
    errors.GroupAccessDenied: HTTPStatus.FORBIDDEN,
    errors.TopicAccessDenied: HTTPStatus.FORBIDDEN,
    errors.TransactionalIdAccessDenied: HTTPStatus.FORBIDDEN,
    errors.PolicyViolation: HTTPStatus.FORBIDDEN,
    errors.TopicDeletionDisabled: HTTPStatus.FORBIDDEN,
    errors.GroupNotFound: HTTPStatus.NOT_FOUND,
    errors.UnknownQueue: HTTPStatus.NOT_FOUND,
    errors.UnknownRoute: HTTPStatus.NOT_FOUND,
    errors.UnknownExchange: HTTPStatus.NOT_FOUND,
    errors.QueueLocked: HTTPStatus.CONFLICT,
    errors.DeclaredOtherwise: HTTPStatus.CONFLICT,
    errors.UnknownBroker: HTTPStatus.NOT_FOUND,
    errors.UnknownCommand: HTTPStatus.NOT_FOUND,
    errors.UnknownDevice: HTTPStatus.NOT_FOUND,
    errors.UnknownRole: HTTPStatus.NOT_FOUND,
    errors.UnknownToken: HTTPStatus.NOT_FOUND,
    errors.UnknownTopic: HTTPStatus.NOT_FOUND,
    errors.UnknownTopicId: HTTPStatus.NOT_FOUND,
    errors.UnknownUser: HTTPStatus.NOT_FOUND,
    errors.BrokerIsLive: HTTPStatus.CONFLICT,
    errors.CommandEnded: HTTPStatus.CONFLICT,
    errors.CommandExists: HTTPStatus.CONFLICT,
    errors.ConcurrentChange: HTTPStatus.CONFLICT,
    errors.GroupNotEmpty: HTTPStatus.CONFLICT,
    errors.GroupSubscribed: HTTPStatus.CONFLICT,
    errors.IllegalGeneration: HTTPStatus.CONFLICT,
    errors.InvalidRecordState: HTTPStatus.CONFLICT,
    errors.RebalanceInProgress: HTTPStatus.CONFLICT,
    errors.StaleVersion: HTTPStatus.CONFLICT,
    errors.TopicExists: HTTPStatus.CONFLICT,
    errors.UnknownMember: HTTPStatus.CONFLICT,
    errors.UserExists: HTTPStatus.CONFLICT,
    errors.BatchTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.ShadowTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.OffsetMetadataTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.OffsetOutOfRange: HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    errors.CommandQueueFull: HTTPStatus.TOO_MANY_REQUESTS,
    errors.MutationQuotaExceeded: HTTPStatus.TOO_MANY_REQUESTS,
    errors.QuotaExceeded: HTTPStatus.TOO_MANY_REQUESTS,
    errors.CoordinatorLoading: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.CoordinatorNotAvailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotCoordinator: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotLeader: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ShuttingDown: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StorageFailed: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotCommittedInTime: HTTPStatus.GATEWAY_TIMEOUT,
    errors.UnknownOutcome: HTTPStatus.GATEWAY_TIMEOUT,
    errors.DiskFull: HTTPStatus.INSUFFICIENT_STORAGE,
}
"""What a refusal is in HTTP; those not here are bad requests."""


def status_of(error: ChordMQError) -> HTTPStatus:
    """Return the status that says best what is wrong."""
    return STATUSES.get(type(error), HTTPStatus.BAD_REQUEST)


def refuse(request: Request, error: Exception) -> Response:
    """Answer a request that the node refuses."""
    assert isinstance(error, ChordMQError)
    if isinstance(error, errors.Elsewhere) and (place := _elsewhere(request, error.node)):
        return RedirectResponse(place, HTTPStatus.TEMPORARY_REDIRECT)
    response = complaint(status_of(error), type(error).__name__, str(error))
    if isinstance(error, errors.QuotaExceeded):
        response.headers["retry-after"] = str(math.ceil(error.wait_s))
    return response


def _elsewhere(request: Request, node: int) -> str:
    """Return the address of the same thing on another node; none if that is not known."""
    member = request.app.state.shared.broker().members.get(node)
    endpoint = member.endpoint("http") if member is not None and member.is_live else None
    if endpoint is None:
        return ""
    scheme = "https" if endpoint.tls else "http"
    return str(request.url.replace(scheme=scheme, hostname=endpoint.host, port=endpoint.port))


def refuse_by_status(request: Request, error: Exception) -> Response:
    """Answer a request that fits no route, or is not HTTP as we want it."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    response = complaint(status, status.phrase.replace(" ", "").replace("-", ""), error.detail)
    response.headers.update(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes with the path of a request."""
    fitting = [
        route.methods or set()
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    return set().union(*fitting)


def fail(_request: Request, _error: Exception) -> Response:
    """Answer when the node itself is at fault; the log has the details."""
    return complaint(
        HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "a fault of this node; its log says more"
    )


def complaint(status: HTTPStatus, error: str, message: str) -> Response:
    """Return the form that every error has."""
    response = JSONResponse({"error": error, "message": message}, status)
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        response.headers["retry-after"] = RETRY_AFTER_S
    return response
