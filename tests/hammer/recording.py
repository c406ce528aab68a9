"""What happens to the rows of jobs, recorded by PostgreSQL itself.

The trigger writes while the statement holds the row's lock, so the lines of a job are in the order in which it moved,
whoever moved it; a transaction that is rolled back leaves none.
"""

from django.db import connection

from jobs.models import Job
from tests.histories.history import History, Move

_INSTALL = """
CREATE TABLE hammer_move (
    seq bigint GENERATED ALWAYS AS IDENTITY, job_id bigint, was text, becomes text, fence int, confirmed int,
    worker_id bigint, at double precision DEFAULT extract(epoch FROM clock_timestamp()));
CREATE FUNCTION hammer_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO hammer_move (job_id, was, becomes, fence, confirmed, worker_id)
    VALUES (NEW.job_id, CASE WHEN TG_OP = 'INSERT' THEN NULL
                             WHEN OLD.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END,
            CASE WHEN NEW.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END, NEW.fence, NEW.confirmed_fence,
            NEW.worker_id);
    RETURN NULL;
END $$;
CREATE FUNCTION hammer_note_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO hammer_move (job_id, was, becomes, fence, confirmed, worker_id)
    SELECT OLD.job_id, CASE WHEN OLD.lease_secret IS NULL THEN 'pending' ELSE 'in_progress' END, status, fence,
           confirmed_fence, worker_id
    FROM jobs_outcome WHERE job_id = OLD.job_id;
    RETURN NULL;
END $$;
CREATE TRIGGER hammer_inserts AFTER INSERT ON jobs_live FOR EACH ROW EXECUTE FUNCTION hammer_note();
CREATE TRIGGER hammer_moves AFTER UPDATE ON jobs_live FOR EACH ROW
WHEN ((OLD.lease_secret IS NULL, OLD.fence, OLD.confirmed_fence)
      IS DISTINCT FROM (NEW.lease_secret IS NULL, NEW.fence, NEW.confirmed_fence))
EXECUTE FUNCTION hammer_note();
CREATE TRIGGER hammer_ends AFTER DELETE ON jobs_live FOR EACH ROW EXECUTE FUNCTION hammer_note_end();
"""
_REMOVE = """
DROP TRIGGER IF EXISTS hammer_inserts ON jobs_live;
DROP TRIGGER IF EXISTS hammer_moves ON jobs_live;
DROP TRIGGER IF EXISTS hammer_ends ON jobs_live;
DROP FUNCTION IF EXISTS hammer_note_end;
DROP FUNCTION IF EXISTS hammer_note;
DROP TABLE IF EXISTS hammer_move;
"""


def install() -> None:
    """Have PostgreSQL record every move of this database's jobs."""
    with connection.cursor() as cursor:
        cursor.execute(_INSTALL)


def remove() -> None:
    """Forget the record, and record nothing more."""
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE)


def moves() -> list[Move]:
    """All moves so far, those of one job in their order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id, was, becomes, fence, confirmed, worker_id, at FROM hammer_move ORDER BY seq")
        return [Move(*row) for row in cursor.fetchall()]


def facts() -> History:
    """What this database says of its jobs: how they stand, and in which queue each is."""
    jobs = list(Job.objects.all())
    history = History(states={job.pk: job.status for job in jobs})
    history.within = {job.pk: [f"queue {job.queue}", f"key {job.concurrency_key}"] for job in jobs}
    history.moves = moves()
    return history
