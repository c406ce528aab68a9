-- Give tokens back; `request` is a ratelimits_request as text. How many rows that changed.
SELECT ratelimits_give_back(
    %(request)s::ratelimits_request, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
) AS changed;
