"""The pages for what went wrong: Django's own, which give back the connection that they took.

They ask the database who is logged in. Under ASGI Django makes them in any thread that is free, outside of the
request's own, so no end of a request closes what they opened: each such thread would keep a connection, and twenty of
them the whole pool.
"""

from django.views import defaults

from postgres import connections

bad_request = connections.released()(defaults.bad_request)
permission_denied = connections.released()(defaults.permission_denied)
page_not_found = connections.released()(defaults.page_not_found)
server_error = connections.released()(defaults.server_error)
