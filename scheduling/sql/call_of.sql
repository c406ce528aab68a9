-- What a pending function calls, and the names of its arguments, which may be what cannot be read.
SELECT function, task_backend, CASE jsonb_typeof(args) WHEN 'object' THEN ARRAY(SELECT jsonb_object_keys(args)) END AS names
FROM scheduling_scheduledfunction WHERE id = %(id)s AND status = 'pending'
