-- What these claimed jobs come after. Most come after nothing, which no statistics say: the function reads by index.
SELECT * FROM jobs_came_after(%(ids)s::bigint[], %(most)s::bigint)
