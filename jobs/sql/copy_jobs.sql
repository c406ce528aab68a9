-- New jobs as lines of COPY's text format: a bulk without twins and limits. Columns as queries.submits writes them.
COPY jobs_job ({columns}, id, created_at, expires_at, payload, traceparent, tags) FROM STDIN
