"""Who may do what: one line for each address and method, one column for each of `world.PEOPLE`.

A cell is what the address answers: its status, or "in" for the log-in page; "+" behind it says that something was
written. So 302+ did what was asked, and 302 told on the next page why not. A method without a line is refused to all.
"""

from collections.abc import Iterator

from tests.permissions.world import PEOPLE

#                                                                   nobody    other     owner     reader    root
#                                                                        guest     mate      key       staff
ADDRESSES = """
GET  /                                                               200  200  200  200  200  200  200  200  200

# People.
GET  /accounts/                                                      in   200  200  200  200  in   200  200  200
GET  /accounts/2fa/                                                  in   403  200  200  200  in   200  200  200
GET  /accounts/2fa/authenticate/                                     302  302  302  302  302  302  302  302  302
POST /accounts/2fa/authenticate/                                     302  302  302  302  302  302  302  302  302
GET  /accounts/2fa/reauthenticate/                                   in   403  302  302  302  in   302  302  403
POST /accounts/2fa/reauthenticate/                                   in   403  302  302  302  in   302  302  403
GET  /accounts/2fa/recovery-codes/                                   in   403  404  404  404  in   404  404  404
GET  /accounts/2fa/recovery-codes/download/                          in   403  404  404  404  in   404  404  404
GET  /accounts/2fa/recovery-codes/generate/                          in   403  302  302  302  in   302  302  200
POST /accounts/2fa/recovery-codes/generate/                          in   403  302  302  302  in   302  302  200
GET  /accounts/2fa/set-up/                                           302  302  302  302  302  302  302  302  302
POST /accounts/2fa/set-up/                                           302  302  302  302  302  302  302  302  302
GET  /accounts/2fa/totp/activate/                                    in   403  302  302  302  in   302  302  200
POST /accounts/2fa/totp/activate/                                    in   403  302  302  302  in   302  302  200
GET  /accounts/2fa/totp/deactivate/                                  in   403  404  404  404  in   404  404  404
GET  /accounts/2fa/webauthn/                                         in   403  200  200  200  in   200  200  200
GET  /accounts/2fa/webauthn/add/                                     in   403  302  302  302  in   302  302  200
POST /accounts/2fa/webauthn/add/                                     in   403  302  302  302  in   302  302  200
GET  /accounts/2fa/webauthn/keys/<int:pk>/edit/                      in   403  302  302  302  in   302  302  404
POST /accounts/2fa/webauthn/keys/<int:pk>/edit/                      in   403  302  302  302  in   302  302  404
GET  /accounts/2fa/webauthn/keys/<int:pk>/remove/                    in   403  302  302  302  in   302  302  404
POST /accounts/2fa/webauthn/keys/<int:pk>/remove/                    in   403  302  302  302  in   302  302  404
GET  /accounts/2fa/webauthn/login/                                   302  302  302  302  302  302  302  302  302
POST /accounts/2fa/webauthn/login/                                   302  302  302  302  302  302  302  302  302
GET  /accounts/2fa/webauthn/reauthenticate/                          in   403  302  302  302  in   302  302  403
POST /accounts/2fa/webauthn/reauthenticate/                          in   403  302  302  302  in   302  302  403
GET  /accounts/confirm/                                              in   403  200  200  200  in   200  200  403
POST /accounts/confirm/                                              in   403  302  302  302  in   302  302  403
GET  /accounts/email/                                                in   403  200  200  200  in   200  200  200
POST /accounts/email/                                                in   403  302  302  302  in   302  302  302+
GET  /accounts/email/<str:key>/                                      200  200  200  200  200  200  200  200  200
GET  /accounts/email/sent/                                           200  200  200  200  200  200  200  200  200
GET  /accounts/groups/                                               in   200  200  200  200  in   200  200  200
POST /accounts/groups/                                               in   302+ 302+ 302+ 302+ in   302+ 302+ 302+
GET  /accounts/groups/<int:group_id>/                                in   404  404  200  200  in   404  404  404
POST /accounts/groups/<int:group_id>/invite/                         in   404  404  302  302+ in   404  404  404
POST /accounts/groups/<int:group_id>/leave/                          in   404  404  302+ 302+ in   404  404  404
POST /accounts/groups/<int:group_id>/remove/                         in   404  404  302  302+ in   404  404  404
POST /accounts/groups/<int:group_id>/withdraw/                       in   404  404  302  302+ in   404  404  404
GET  /accounts/guest/                                                200  302  302  302  302  200  302  302  302
POST /accounts/guest/                                                422  302  302  302  302  422  302  302  302
GET  /accounts/guest/<slug:captcha>.png                              200  200  200  200  200  200  200  200  200
GET  /accounts/inactive/                                             200  200  200  200  200  200  200  200  200
GET  /accounts/join/<str:token>/                                     200  200  200  302  302  200  200  200  200
POST /accounts/join/<str:token>/                                     302  302+ 302+ 302  302  302  302+ 302+ 302+
GET  /accounts/link/<str:token>/                                     200  200  200  200  200  200  200  200  200
POST /accounts/link/<str:token>/                                     302+ 302+ 302+ 302+ 302+ 302+ 302+ 302+ 302+
GET  /accounts/login/                                                200  200  302  302  302  200  302  302  302
POST /accounts/login/                                                302+ 302+ 302  302  302  302+ 302  302  302
POST /accounts/logout/                                               302  302+ 302+ 302+ 302+ 302  302+ 302+ 302+
GET  /accounts/oidc/<slug:provider_id>/login/                        404  404  404  404  404  404  404  404  404
GET  /accounts/oidc/<slug:provider_id>/login/callback/               404  404  404  404  404  404  404  404  404
GET  /accounts/password/                                             in   403  200  200  200  in   200  200  302
POST /accounts/password/                                             in   403  302+ 302+ 302+ in   302+ 302+ 302
GET  /accounts/password/reset/                                       200  200  200  200  200  200  200  200  200
GET  /accounts/password/reset/<base36:uidb36>-<str:key>/             200  200  200  200  200  200  200  200  200
POST /accounts/password/reset/<base36:uidb36>-<str:key>/             200  200  200  200  200  200  200  200  200
GET  /accounts/password/reset/done/                                  200  200  200  200  200  200  200  200  200
GET  /accounts/password/reset/sent/                                  200  200  200  200  200  200  200  200  200
GET  /accounts/password/set/                                         in   403  302  302  302  in   302  302  200
POST /accounts/password/set/                                         in   403  302  302  302  in   302  302  302+
GET  /accounts/sessions/                                             in   403  200  200  200+ in   200  200  200
POST /accounts/sessions/                                             in   403  302  302  302+ in   302  302  302
POST /accounts/sessions/<int:session_id>/end/                        in   403  404  404  302+ in   404  404  404
GET  /accounts/sign-up/                                              200  200  302  302  302  200  302  302  302
POST /accounts/sign-up/                                              302+ 302+ 302  302  302  302+ 302  302  302
GET  /accounts/sso/                                                  in   200  200  200  200  in   200  200  200
POST /accounts/sso/                                                  in   200  200  200  200  in   200  200  200
GET  /accounts/sso/login/cancelled/                                  200  200  200  200  200  200  200  200  200
GET  /accounts/sso/login/error/                                      401  401  401  401  401  401  401  401  401
GET  /accounts/sso/signup/                                           302  302  302  302  302  302  302  302  302
POST /accounts/sso/signup/                                           302  302  302  302  302  302  302  302  302
GET  /accounts/tokens/                                               in   403  302  302  302  in   302  302  302
POST /accounts/tokens/                                               in   403  302  302  302  in   302  302  200+
POST /accounts/tokens/<int:token_id>/revoke/                         in   404  404  404  302+ in   404  404  302+

# Jobs, queues, workers.
GET  /jobs/                                                          in   200  200  200  200  in   200  200  200
GET  /jobs/<jobid:job_id>/                                           in   404  404  200  200  in   200  200  200
GET  /jobs/<jobid:job_id>/attempts/                                  in   404  404  200  200  in   200  200  200
POST /jobs/<jobid:job_id>/cancel/                                    in   404  404  302  302+ in   302  302+ 302+
GET  /jobs/<jobid:job_id>/files/<str:name>                           in   404  404  200  200  in   200  200  200
GET  /jobs/<jobid:job_id>/files/<str:name>/link                      in   404  404  200  200  in   200  200  200
GET  /jobs/<jobid:job_id>/inputs/<str:name>                          in   404  404  200  200  in   200  200  200
GET  /jobs/<jobid:job_id>/output/<int:fence>                         in   404  404  200  200  in   200  200  200
POST /jobs/<jobid:job_id>/retry/                                     in   404  404  302  302+ in   302  302+ 302+
POST /jobs/<jobid:job_id>/clone/                                     in   403  404  302+ 302+ in   302+ 302+ 302+
POST /jobs/<jobid:job_id>/run-now/                                   in   404  404  302  302+ in   302  302+ 302+
POST /jobs/<jobid:job_id>/key/pause/                                 in   403  403  403  403  in   403  302+ 302+
POST /jobs/<jobid:job_id>/key/resume/                                in   403  403  403  403  in   403  302+ 302+
POST /jobs/<jobid:job_id>/signal/                                    in   404  404  302  302+ in   302  302+ 302+
POST /jobs/<jobid:job_id>/priority/                                  in   404  404  302  302+ in   302  302+ 302+
POST /jobs/<jobid:job_id>/share/                                     in   404  404  302  302+ in   302  302+ 302+
POST /jobs/<jobid:job_id>/unshare/                                   in   404  404  302  302+ in   302  302+ 302+
GET  /jobs/export.csv                                                in   200  200  200  200  in   200  200  200
GET  /jobs/export.jsonl                                              in   200  200  200  200  in   200  200  200
GET  /flows/<jobid:flow_id>/                                         in   404  404  200  200  in   200  200  200
POST /flows/<jobid:flow_id>/cancel/                                  in   404  404  302  302+ in   302  302+ 302+
POST /flows/<jobid:flow_id>/retry/                                   in   404  404  302  302  in   302  302  302
GET  /jobs/bulk/                                                     in   200  200  200  200  in   200  200  200
POST /jobs/bulk/                                                     in   302+ 302+ 302+ 302+ in   302+ 302+ 302+
GET  /jobs/bulk/<jobid:bulk_id>/                                     in   404  404  404  200  in   200  200  200
POST /jobs/bulk/<jobid:bulk_id>/begin/                               in   404  404  404  302+ in   404  302+ 302+
POST /jobs/bulk/<jobid:bulk_id>/stop/                                in   404  404  404  302+ in   404  302+ 302+
POST /jobs/bulk/<jobid:bulk_id>/undo/                                in   404  404  404  302+ in   404  302+ 302+
GET  /jobs/failures/                                                 in   200  200  200  200  in   200  200  200
POST /jobs/failures/                                                 in   302  302  302  302  in   302  302  302
POST /jobs/filters/save/                                             in   302+ 302+ 302+ 302+ in   302+ 302+ 302+
POST /jobs/filters/<int:filter_id>/forget/                           in   404  404  404  302+ in   404  404  404
GET  /jobs/new/                                                      in   403  200  200  200  in   200  200  200
POST /jobs/new/                                                      in   403  302+ 302+ 302+ in   302+ 302+ 302+
POST /jobs/of/<int:owner_id>/pause/                                  in   403  403  403  403  in   403  302+ 302+
POST /jobs/of/<int:owner_id>/resume/                                 in   403  403  403  403  in   403  302+ 302+
GET  /jobs/shared/<str:token>/                                       200  200  200  200  200  200  200  200  200
GET  /jobs/shared/<str:token>/files/<str:name>                       200  200  200  200  200  200  200  200  200
GET  /jobs/shared/<str:token>/inputs/<str:name>                      200  200  200  200  200  200  200  200  200
GET  /jobs/shared/<str:token>/output/<int:fence>                     200  200  200  200  200  200  200  200  200
GET  /files/<str:token>                                              200  200  200  200  200  200  200  200  200
GET  /queues/                                                        in   200  200  200  200  in   200  200  200
GET  /queues/<str:name>/                                             in   200  200  200  200  in   200  200  200
POST /queues/<str:name>/ceiling/                                     in   403  403  403  403  in   403  302+ 302+
POST /queues/<str:name>/order/                                       in   403  403  403  403  in   403  302+ 302+
POST /queues/<str:name>/pause/                                       in   403  403  403  403  in   403  302+ 302+
POST /queues/<str:name>/resume/                                      in   403  403  403  403  in   403  302+ 302+
GET  /timeline/                                                      in   403  403  403  403  in   200  200  200
GET  /workers/                                                       in   200  200  200  200  in   200  200  200
GET  /workers/connect/                                               in   200  200  200  200  in   200  200  200
POST /workers/connect/                                               in   403  200+ 200+ 200+ in   200+ 200+ 200+
GET  /workers/<jobid:worker_id>/                                     in   404  404  404  200  in   200  200  200
POST /workers/<jobid:worker_id>/drain/                               in   404  404  404  302+ in   403  302+ 302+
POST /workers/<jobid:worker_id>/labels/                              in   404  404  404  403  in   403  302+ 302+
POST /workers/<jobid:worker_id>/undrain/                             in   404  404  404  302+ in   403  302+ 302+
POST /workers/<jobid:worker_id>/revoke/                              in   404  404  404  302+ in   403  302+ 302+
POST /workers/<jobid:worker_id>/rotate/                              in   404  404  404  200+ in   403  200+ 200+

# The API. Its page and document are for everybody; clients come with sessions here, and with tokens in another test.
GET  /api/                                                           404  404  404  404  404  404  404  404  404
GET  /api/docs                                                       200  200  200  200  200  200  200  200  200
POST /api/docs                                                       200  200  200  200  200  200  200  200  200
POST /api/v1/flows                                                   401  403  201+ 201+ 201+ 401  201+ 201+ 201+
GET  /api/v1/flows/<jobid:flow_id>                                   401  404  404  200  200  401  200  200  200
POST /api/v1/flows/<jobid:flow_id>/cancel                            401  403  404  200  200+ 401  200  200+ 200+
POST /api/v1/flows/<jobid:flow_id>/retry                             401  403  404  200  200  401  200  200  200
GET  /api/v1/bulk-actions                                            401  200  200  200  200  401  200  200  200
POST /api/v1/bulk-actions                                            401  403  201+ 201+ 201+ 401  201+ 201+ 201+
GET  /api/v1/bulk-actions/<jobid:bulk_id>                            401  404  404  404  200  401  200  200  200
POST /api/v1/bulk-actions/<jobid:bulk_id>/begin                      401  403  404  404  200+ 401  404  200+ 200+
POST /api/v1/bulk-actions/<jobid:bulk_id>/stop                       401  403  404  404  200+ 401  404  200+ 200+
POST /api/v1/bulk-actions/<jobid:bulk_id>/undo                       401  403  404  404  200+ 401  404  200+ 200+
GET  /api/v1/events                                                  401  200  200  200  200  401  200  200  200
POST /api/v1/view-tokens                                             401  403  404  403  201+ 401  403  201+ 201+
DELETE /api/v1/view-tokens/<jobid:token_id>                          401  403  404  404  200+ 401  404  404  404
GET  /api/v1/budgets                                                 401  200  200  200  200  401  200  200  200
POST /api/v1/budgets                                                 401  403  403  403  403  401  403  201+ 201+
PATCH /api/v1/budgets/<jobid:budget_id>                              401  403  403  403  403  401  403  200+ 200+
DELETE /api/v1/budgets/<jobid:budget_id>                             401  403  403  403  403  401  403  200+ 200+
POST /api/v1/files                                                   401  403  201+ 201+ 201+ 401  201+ 201+ 201+
GET  /api/v1/files/<uuidstr:file_id>                                 401  404  404  404  200  401  404  404  404
DELETE /api/v1/files/<uuidstr:file_id>                               401  403  404  404  200+ 401  404  404  404
GET  /api/v1/jobs                                                    401  200  200  200  200  401  200  200  200
POST /api/v1/jobs                                                    401  403  201+ 201+ 201+ 401  201+ 201+ 201+
GET  /api/v1/jobs/<jobid:job_id>                                     401  404  404  200  200  401  200  200  200
POST /api/v1/jobs/<jobid:job_id>/cancel                              401  403  404  403  200+ 401  403  200+ 200+
GET  /api/v1/jobs/<jobid:job_id>/events                              401  404  404  200  200  401  200  200  200
GET  /api/v1/jobs/events                                             401  404  404  200  200  401  200  200  200
GET  /api/v1/jobs/<jobid:job_id>/files/<name>                        401  404  404  200  200  401  200  200  200
GET  /api/v1/jobs/<jobid:job_id>/inputs/<name>                       401  404  404  200  200  401  200  200  200
GET  /api/v1/jobs/<jobid:job_id>/output                              401  404  404  200  200  401  200  200  200
POST /api/v1/jobs/<jobid:job_id>/retry                               401  403  404  403  201+ 401  403  201+ 201+
POST /api/v1/jobs/<jobid:job_id>/run_now                             401  403  404  403  200+ 401  403  200+ 200+
POST /api/v1/jobs/<jobid:job_id>/signals                             401  403  404  403  200+ 401  403  200+ 200+
POST /api/v1/jobs/<jobid:job_id>/priority                            401  403  404  403  200+ 401  403  200+ 200+
GET  /api/v1/jobs/<jobid:job_id>/why                                 401  404  404  200  200  401  200  200  200
POST /api/v1/jobs/pause                                              401  403  403  403  403  401  403  200+ 200+
POST /api/v1/jobs/resume                                             401  403  403  403  403  401  403  200+ 200+
POST /api/v1/jobs/bulk                                               401  403  201+ 201+ 201+ 401  201+ 201+ 201+
GET  /api/v1/openapi.json                                            200  200  200  200  200  200  200  200  200
POST /api/v1/openapi.json                                            200  200  200  200  200  200  200  200  200
GET  /api/v1/alerts                                                  401  403  403  403  403  401  200  200  200
GET  /api/v1/alerts/conditions                                       401  403  403  403  403  401  200  200  200
GET  /api/v1/alerts/rules                                            401  403  403  403  403  401  200  200  200
POST /api/v1/alerts/rules                                            401  403  403  403  403  401  403  201+ 201+
GET  /api/v1/alerts/rules/<jobid:rule_id>                            401  403  403  403  403  401  200  200  200
PATCH /api/v1/alerts/rules/<jobid:rule_id>                           401  403  403  403  403  401  403  200+ 200+
DELETE /api/v1/alerts/rules/<jobid:rule_id>                          401  403  403  403  403  401  403  200+ 200+
POST /api/v1/alerts/rules/<jobid:rule_id>/mute                       401  403  403  403  403  401  403  200+ 200+
POST /api/v1/alerts/rules/<jobid:rule_id>/test                       401  403  403  403  403  401  403  200+ 200+
POST /api/v1/alerts/rules/<jobid:rule_id>/unmute                     401  403  403  403  403  401  403  200+ 200+
GET  /api/v1/outbox/endpoints                                        401  200  200  200  200  401  200  200  200
POST /api/v1/outbox/endpoints                                        401  403  201+ 201+ 201+ 401  201+ 201+ 201+
GET  /api/v1/outbox/endpoints/<int:endpoint_id>                      401  404  404  404  200  401  200  200  200
PATCH /api/v1/outbox/endpoints/<int:endpoint_id>                     401  403  404  404  200+ 401  403  200+ 200+
DELETE /api/v1/outbox/endpoints/<int:endpoint_id>                    401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/outbox/endpoints/<int:endpoint_id>/disable              401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/outbox/endpoints/<int:endpoint_id>/pause                401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/outbox/endpoints/<int:endpoint_id>/resume               401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/outbox/endpoints/<int:endpoint_id>/rotate               401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/outbox/endpoints/<int:endpoint_id>/test                 401  403  404  404  200+ 401  403  200+ 200+
GET  /api/v1/outbox/messages                                         401  200  200  200  200  401  200  200  200
GET  /api/v1/outbox/messages/<int:message_id>                        401  404  404  404  200  401  200  200  200
POST /api/v1/outbox/messages/<int:message_id>/replay                 401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/outbox/replays                                          401  403  201  201  201+ 401  201  201+ 201+
GET  /api/v1/outbox/replays/<int:replay_id>                          401  404  404  404  200  401  200  200  200
POST /api/v1/outbox/replays/<int:replay_id>/stop                     401  403  404  404  200+ 401  403  200+ 200+
GET  /api/v1/scale                                                   401  403  403  403  403  401  200  200  200
GET  /api/v1/usage                                                   401  200  200  200  200  401  200  200  200
GET  /api/v1/workers                                                 401  200  200  200  200  401  200  200  200
GET  /api/v1/workers/<jobid:worker_id>                               401  404  404  404  200  401  200  200  200
POST /api/v1/workers/<jobid:worker_id>/drain                         401  403  404  404  200+ 401  403  200+ 200+
PUT  /api/v1/workers/<jobid:worker_id>/labels                        401  403  404  404  403  401  403  200+ 200+
POST /api/v1/workers/<jobid:worker_id>/undrain                       401  403  404  404  200+ 401  403  200+ 200+
POST /api/v1/worker/claim                                            401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/finish                                           401  401  401  401  401  200+ 401  401  401
PUT  /api/v1/worker/jobs/<jobid:job_id>/files/<name>                 401  401  401  401  401  201+ 401  401  401
GET  /api/v1/worker/jobs/<jobid:job_id>/inputs/<name>                401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/heartbeat                                        401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/hello                                            401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/jobs/<jobid:job_id>/checkpoint                   401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/jobs/<jobid:job_id>/finish                       401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/jobs/<jobid:job_id>/heartbeat                    401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/jobs/<jobid:job_id>/output                       401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/jobs/<jobid:job_id>/submit                       401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/jobs/<jobid:job_id>/release                      401  401  401  401  401  200+ 401  401  401
POST /api/v1/worker/unclaim                                          401  401  401  401  401  200  401  401  401

# OpenAI's API: for tokens alone, which another test brings. Sessions open nothing.
GET  /v1/                                                            404  404  404  404  404  404  404  404  404
GET  /v1/models                                                      401  401  401  401  401  401  401  401  401
GET  /v1/models/<path:model>                                         401  401  401  401  401  401  401  401  401
GET  /v1/batches                                                     401  401  401  401  401  401  401  401  401
POST /v1/batches                                                     401  401  401  401  401  401  401  401  401
GET  /v1/batches/<batch_id>                                          401  401  401  401  401  401  401  401  401
POST /v1/batches/<batch_id>/cancel                                   401  401  401  401  401  401  401  401  401
GET  /v1/files                                                       401  401  401  401  401  401  401  401  401
POST /v1/files                                                       401  401  401  401  401  401  401  401  401
GET  /v1/files/<file_id>                                             401  401  401  401  401  401  401  401  401
DELETE /v1/files/<file_id>                                           401  401  401  401  401  401  401  401  401
GET  /v1/files/<file_id>/content                                     401  401  401  401  401  401  401  401  401
POST /v1/<openaicall:path>                                           401  401  401  401  401  401  401  401  401
GET  /v1/<openaicall:path>/<jobid:job_id>                            401  401  401  401  401  401  401  401  401
GET  /v1/<openaicall:path>/<jobid:job_id>/events                     401  401  401  401  401  401  401  401  401
GET  /v1/responses/<responseid:response_id>                          401  401  401  401  401  401  401  401  401
DELETE /v1/responses/<responseid:response_id>                        401  401  401  401  401  401  401  401  401
POST /v1/responses/<responseid:response_id>/cancel                   401  401  401  401  401  401  401  401  401
GET  /v1/responses/<responseid:response_id>/input_items              401  401  401  401  401  401  401  401  401

# Their batches.
GET  /batches/                                                       in   403  200  200  200  in   200  200  200
GET  /batches/<uuid:batch_id>/                                       in   403  404  404  200  in   200  200  200
GET  /batches/<uuid:batch_id>/<slug:which>.jsonl                     in   403  404  404  200  in   200  200  200
POST /batches/<uuid:batch_id>/cancel/                                in   403  404  404  302+ in   302  302+ 302+

# The chat: for who is in the room.
GET  /chat/                                                          in   200  200  200  200  in   200  200  200
POST /chat/                                                          in   302+ 302+ 302+ 302+ in   302+ 302+ 302+
GET  /chat/<jobid:group_id>/                                         in   404  404  200  200  in   404  404  404
POST /chat/<jobid:group_id>/again/                                   in   404  404  302  302+ in   404  404  404
POST /chat/<jobid:group_id>/cancel/                                  in   404  404  302  302+ in   404  404  404
POST /chat/<jobid:group_id>/instructions/                            in   404  404  302+ 302+ in   404  404  404
POST /chat/<jobid:group_id>/remove/                                  in   404  404  302  302+ in   404  404  404
POST /chat/<jobid:group_id>/say/                                     in   404  404  302+ 302+ in   404  404  404
POST /chat/<jobid:group_id>/worker/                                  in   404  404  200+ 200+ in   404  404  404

# The game: for everybody with a code; what a stage does not allow is told, and changes nothing.
GET  /game/                                                          in   200  200  200  200  in   200  200  200
GET  /game/<str:code>/                                               in   200  200  200  200  in   200  200  200
POST /game/<str:code>/again/                                         in   302  302  302  302  in   302  302  302
POST /game/<str:code>/begin/                                         in   302  302  302  302+ in   302  302  302
POST /game/<str:code>/guess/                                         in   302  302  302  302  in   302  302  302
POST /game/<str:code>/leave/                                         in   302  302  302+ 302+ in   302  302  302
POST /game/<str:code>/name/                                          in   302  302  302  302  in   302  302  302
POST /game/<str:code>/on/                                            in   302  302  302  302  in   302  302  302
POST /game/<str:code>/play/                                          in   302  302  302  302+ in   302  302  302
GET  /game/gallery/                                                  in   200  200  200  200  in   200  200  200
POST /game/join/                                                     in   302+ 302+ 302  302  in   302+ 302+ 302+
POST /game/open/                                                     in   302+ 302+ 302+ 302+ in   302+ 302+ 302+
POST /game/paint/                                                    in   302+ 302+ 302+ 302  in   302+ 302+ 302+
GET  /game/pictures/<jobid:submission_id>/                           in   404  404  404  200  in   404  404  404
POST /game/pictures/<jobid:submission_id>/withdraw/                  in   404  404  404  302+ in   404  404  404
POST /translation/start/                                             in   403  302+ 302+ 302+ in   302+ 302+ 302+

# What operators look after: to others it is not there.
GET  /functions/                                                     in   404  404  404  404  in   200  200  200
GET  /functions/<functionid:function_id>/                            in   404  404  404  404  in   200  200  200
POST /functions/<functionid:function_id>/cancel/                     in   404  404  404  404  in   404  302+ 302+
POST /functions/<functionid:function_id>/run-again/                  in   404  404  404  404  in   404  302+ 302+
GET  /crons/                                                         in   404  404  404  404  in   200  200  200
GET  /crons/<cronname:name>/                                         in   404  404  404  404  in   200  200  200
GET  /crons/<cronname:name>/edit/                                    in   404  404  404  404  in   404  200  200
POST /crons/<cronname:name>/edit/                                    in   404  404  404  404  in   404  302+ 302+
GET  /new-cron/                                                      in   404  404  404  404  in   404  200  200
POST /new-cron/                                                      in   404  404  404  404  in   404  302+ 302+
GET  /new-cron/preview/                                              in   404  404  404  404  in   404  200  200
POST /crons/<cronname:name>/<cronaction:action>/                     in   404  404  404  404  in   404  302+ 302+
GET  /outbox/                                                        in   403  200  200  200  in   200  200  200
GET  /outbox/new/                                                    in   403  200  200  200  in   200  200  200
POST /outbox/new/                                                    in   403  200+ 200+ 200+ in   200+ 200+ 200+
GET  /outbox/<int:endpoint_id>/                                      in   403  404  404  200  in   200  200  200
GET  /outbox/<int:endpoint_id>/edit/                                 in   403  404  404  200  in   404  200  200
POST /outbox/<int:endpoint_id>/edit/                                 in   403  404  404  302+ in   404  302+ 302+
POST /outbox/<int:endpoint_id>/<slug:action>/                        in   403  404  404  302+ in   404  302+ 302+
POST /outbox/<int:endpoint_id>/delete/                               in   403  404  404  302+ in   404  302+ 302+
GET  /outbox/<int:endpoint_id>/replay/                               in   403  404  404  200  in   404  200  200
POST /outbox/<int:endpoint_id>/replay/                               in   403  404  404  302+ in   404  302+ 302+
GET  /outbox/replays/<int:replay_id>/                                in   403  404  404  200  in   200  200  200
POST /outbox/replays/<int:replay_id>/stop/                           in   403  404  404  302+ in   404  302+ 302+
POST /outbox/<int:endpoint_id>/rotate/                               in   403  404  404  200+ in   404  200+ 200+
GET  /outbox/messages/<int:message_id>/                              in   403  404  404  200  in   200  200  200
POST /outbox/messages/<int:message_id>/replay/                       in   403  404  404  302+ in   404  302+ 302+

GET  /limits/                                                        in   403  403  403  403  in   200  200  200
GET  /limits/one/                                                    in   403  403  403  403  in   200  200  200
GET  /alerts/                                                        in   403  403  403  403  in   200  200  200
GET  /alerts/rules/new/                                              in   403  403  403  403  in   403  200  200
POST /alerts/rules/new/                                              in   403  403  403  403  in   403  302+ 302+
GET  /alerts/rules/<jobid:rule_id>/                                  in   403  403  403  403  in   200  200  200
POST /alerts/rules/<jobid:rule_id>/                                  in   403  403  403  403  in   403  302+ 302+
POST /alerts/rules/<jobid:rule_id>/mute/                             in   403  403  403  403  in   403  302+ 302+
POST /alerts/rules/<jobid:rule_id>/test/                             in   403  403  403  403  in   403  302+ 302+
POST /alerts/rules/<jobid:rule_id>/unmute/                           in   403  403  403  403  in   403  302+ 302+
POST /alerts/rules/<jobid:rule_id>/delete/                           in   403  403  403  403  in   403  302+ 302+
GET  /usage/                                                         in   200  200  200  200  in   200  200  200
GET  /usage/usage.csv                                                in   200  200  200  200  in   200  200  200
GET  /limits/refresh/                                                in   403  403  403  403  in   204  204  204
POST /limits/reset/                                                  in   403  403  403  403  in   403  302+ 302+
GET  /inbox/                                                         in   404  404  404  404  in   200  200  200
GET  /inbox/<jobid:delivery_id>/                                     in   404  404  404  404  in   200  200  200
GET  /inbox/<jobid:delivery_id>/body                                 in   404  404  404  404  in   200  200  200
POST /inbox/<jobid:delivery_id>/replay/                              in   404  404  404  404  in   404  302+ 302+
POST /inbox/<jobid:delivery_id>/start/                               in   404  404  404  404  in   404  302+ 302+
GET  /inbox/replays/                                                 in   404  404  404  404  in   200  200  200
GET  /inbox/replays/<jobid:first>/                                   in   404  404  404  404  in   200  200  200
POST /inbox/replays/<jobid:first>/stop/                              in   404  404  404  404  in   404  302+ 302+
GET  /inbox/replays/new/                                             in   404  404  404  404  in   404  200  200
POST /inbox/replays/new/                                             in   404  404  404  404  in   404  302+ 302+
GET  /inbox/sources/                                                 in   404  404  404  404  in   200  200  200
GET  /inbox/sources/<str:name>/                                      in   404  404  404  404  in   200  200  200
POST /inbox/sources/<str:name>/                                      in   404  404  404  404  in   404  200+ 200+
POST /inbox/sources/<str:name>/secrets/<jobid:secret_id>/retire/     in   404  404  404  404  in   404  302+ 302+
GET  /inbox/sources/<str:name>/send/                                 in   404  404  404  404  in   404  200  200
POST /inbox/sources/<str:name>/send/                                 in   404  404  404  404  in   404  422  422
POST /inbox/tokens/                                                  in   404  404  404  404  in   404  200+ 200+
POST /inbox/tokens/revoke/                                           in   404  404  404  404  in   404  302+ 302+
GET  /activity/                                                      in   404  404  404  404  in   200  200  200
GET  /admin/login/                                                   in   403  403  403  403  in   302  302  302

# For load balancers and browsers.
GET  /health/live                                                    200  200  200  200  200  200  200  200  200
GET  /metrics                                                         404  404  404  404  404  404  404  404  404
GET  /health/ready                                                   200  200  200  200  200  200  200  200  200
GET  /favicon.ico                                                    302  302  302  302  302  302  302  302  302
POST /favicon.ico                                                    302  302  302  302  302  302  302  302  302
"""


def lines() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Of each line the method, the pattern of the address, and who is answered what."""
    for line in ADDRESSES.splitlines():
        if line and not line.startswith("#"):
            method, pattern, *cells = line.split()
            yield method, pattern.removeprefix("/"), dict(zip(PEOPLE, cells, strict=True))
