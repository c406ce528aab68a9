-- Give tokens back; `request` is an object with the fields of ratelimits_request. How many rows that changed.
SELECT ratelimits_give_back(
    jsonb_populate_record(NULL::ratelimits_request, %(request)s::jsonb),
    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
) AS changed;
