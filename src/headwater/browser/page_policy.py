"""What a page in the browser may not do at all: headers that are added to its own, and hold whatever those allow."""

_CONTENT = (
    "frame-src 'none'; worker-src 'none'; object-src 'none'; img-src 'none'; media-src 'none'; font-src 'none'; "
    "manifest-src 'none'; connect-src http: https:; form-action 'none'; sandbox allow-scripts allow-same-origin"
)
# What the browser itself would ask hosts for on a page's behalf: nobody sees those requests before they leave.
_NOT_FOR_PAGES = (
    "identity-credentials-get",
    "publickey-credentials-get",
    "publickey-credentials-create",
    "payment",
    "private-state-token-issuance",
    "private-state-token-redemption",
    "join-ad-interest-group",
    "run-ad-auction",
    "attribution-reporting",
)
POLICIES = [
    {"name": "Content-Security-Policy", "value": _CONTENT},
    {"name": "Permissions-Policy", "value": ", ".join(f"{name}=()" for name in _NOT_FOR_PAGES)},
]
