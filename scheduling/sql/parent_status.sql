-- The state of an action that schedules something, held still until that is committed: a cancel that comes later
-- finds the children it may cancel, one that came before makes them canceled from birth.
SELECT status FROM scheduling_scheduledfunction WHERE id = %(id)s FOR SHARE
