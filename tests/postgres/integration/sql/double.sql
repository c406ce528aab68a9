-- Double a number, and hand back what it was given.
-- 100%% of it: a percent sign in the statement is written twice, in a caption once: 100 %.
SELECT
    %(number)s::bigint * 2 AS doubled,  -- after the comma
    %(document)s::jsonb AS document,
    %(names)s::text[] AS names,
    '100 %%' AS share;
