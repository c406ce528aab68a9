"""`python -m tests.accounts.edges.provider_process PORT SECONDS`: `oidc-provider-mock`, which looks at proof keys (RFC
7636), by a clock that is so many seconds ahead. To whom it knows with the claim `replays` it gives the ID token that it
gave them last, of another log-in; of whom it knows with `userinfo_sub` its userinfo speaks as of that one."""

import json
import sys
import time
from typing import Any

import oidc_provider_mock
import werkzeug.serving
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc7636 import CodeChallenge
from oidc_provider_mock._app import AuthorizationCodeGrant, OpenIDCode

_register, _save = AuthorizationServer.register_grant, AuthorizationCodeGrant.save_authorization_code
_encode = OpenIDCode.encode_id_token
_challenges: dict[str, tuple[str, str]] = {}  # by code, each with its method
_tokens: dict[str, Any] = {}  # the last one of each person


class _Proof(CodeChallenge):  # type: ignore[misc]  # authlib ships no types
    """The mock stores neither with its codes."""

    def get_authorization_code_challenge(self, authorization_code: Any) -> str:
        return _challenges[authorization_code.code][0]

    def get_authorization_code_challenge_method(self, authorization_code: Any) -> str:
        return _challenges[authorization_code.code][1]


def _saving(grant: Any, code: str, request: Any) -> None:
    _challenges[code] = request.data["code_challenge"], request.data["code_challenge_method"]
    _save(grant, code, request)


def _encoding(code: Any, token: Any, request: Any) -> Any:
    if not request.user.claims.get("replays"):
        _tokens[request.user.sub] = _encode(code, token, request)
    return _tokens[request.user.sub]


def _registering(server: Any, grant: Any, extensions: Any = None) -> None:
    _register(server, grant, [*extensions, _Proof(required=True)] if extensions else None)


def _speaking_of_another(response: Any) -> Any:
    claims = response.get_json(silent=True)
    if isinstance(claims, dict) and "userinfo_sub" in claims:
        response.set_data(json.dumps(claims | {"sub": claims["userinfo_sub"]}))
    return response


def main(port: int, ahead_s: float) -> None:
    """Listen until the process is ended."""
    right = time.time
    time.time = lambda: right() + ahead_s
    AuthorizationServer.register_grant, AuthorizationCodeGrant.save_authorization_code = _registering, _saving
    OpenIDCode.encode_id_token = _encoding
    app = oidc_provider_mock.app()
    app.after_request(_speaking_of_another)
    werkzeug.serving.make_server("127.0.0.1", port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
