-- The same for a limit that lies in several rows, of which two are drawn.
SELECT answer.granted, answer.retry_after_ms, answer.remaining
FROM (SELECT floor(random() * config.shards)::integer AS one, floor(random() * (config.shards - 1))::integer AS step,
             config.*
      FROM (SELECT (%(config)s::ratelimits_config).*) AS config) AS config,
     ratelimits_take_sharded(
         (%(name)s, %(key)s, config.is_window, config.rate, config.period_ms, config.most, config.floor,
          config.start_ms, config.shards, %(count)s)::ratelimits_request,
         floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, random(),
         config.one, (config.one + 1 + config.step) %% config.shards
     ) AS answer;
