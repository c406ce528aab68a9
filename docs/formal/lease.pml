/* One job: its lease, its claim number, its cancel. What `jobs/operations` does in a transaction is one atomic step
 * here; between steps anything may happen, in any order, any number of times.
 *
 * Two workers share the job. A worker keeps the last two leases it was given (two lines of it may have gone different
 * ways: it froze and came back, the network repeated or reordered its calls) and speaks with either at any moment. The
 * answer to a claim may be lost on its way: then the worker asks for it again, at any later moment. A worker may die.
 * Time is only what matters of it: whether the lease ran out, which it does when its worker is dead, does not know of it,
 * or could not be heard. For a while the farm hears nobody. What is bounded, so that the search ends: claims, failures
 * until the job is failed for good, and how often the farm is deaf.
 *
 * An attempt may be suspended until a signal comes, which may come before; what waits may expire before its first start.
 *
 * `tests/formal/test_lease.py` runs the search over every state, and over mutants of this model in each of which one
 * guard is left out: each must break the claim that the guard is there for. `tests/formal/paths.py` searches for paths
 * of this model on which jobs went that PostgreSQL recorded: it says what is RECORDED, and what FOLLOWS.
 */

#ifndef CLAIMS
#define CLAIMS 3        /* at most so many claims, so that the state space is finite */
#endif
#ifndef MAX_FAILURES
#define MAX_FAILURES 2  /* attempts that may fail, or be lost */
#endif
#ifndef MOST_UNCONFIRMED
#define MOST_UNCONFIRMED 2  /* from so many leases in a row that no call named, each counts as lost */
#endif

#ifndef WORKERS
#define WORKERS 2
#define CANCELS 1
#endif
#ifndef RECORDED
#define RECORDED(kind, what) true
#define FOLLOWS skip
#define BEGINS skip
#define IS_OPEN true    /* not only what is recorded may happen */
#define MAY_BE_SILENT(w) (!alive[w] || deaf || last[w] != fence)
#endif

/* The guards, each of which a mutant leaves out. */
#ifndef LEASE_IS_CURRENT
#define LEASE_IS_CURRENT(lease) (lease == fence)
#endif
#ifndef IS_RUNNING
#define IS_RUNNING (status == in_progress)
#endif
#ifndef JANITOR_SEES
#define JANITOR_SEES (status == in_progress && ran_out)
#endif
#ifndef FARM_HEARS
#define FARM_HEARS (!deaf && !grace)
#endif
#ifndef WAS_CONFIRMED
#define WAS_CONFIRMED (confirmed_fence == fence)
#endif
#ifndef MAY_BE_AN_ANSWER
#define MAY_BE_AN_ANSWER (unconfirmed + 1 < MOST_UNCONFIRMED)
#endif
#ifndef MAY_BE_CLAIMED
#define MAY_BE_CLAIMED (status == pending && !suspended)
#endif
#ifndef MAY_BE_CANCELED
#define MAY_BE_CANCELED (status == pending || status == in_progress)
#endif
#ifndef STILL_STANDS
#define STILL_STANDS(lease) (status == in_progress && lease == fence && confirmed_fence < lease)
#endif
#ifndef NOT_NAMED
#define NOT_NAMED (confirmed_fence < fence)
#endif
#ifndef MAY_EXPIRE
#define MAY_EXPIRE (status == pending && confirmed_fence == 0)
#endif
#ifndef CAME_BEFORE
#define CAME_BEFORE signaled
#endif
#ifndef IS_WAITED_FOR
#define IS_WAITED_FOR suspended
#endif
#ifndef LAST_FAILURE
#define LAST_FAILURE (failures + 1 >= MAX_FAILURES)
#endif
#ifndef FAILED_BEFORE_THE_LAST
#define FAILED_BEFORE_THE_LAST (failures + 1 < MAX_FAILURES)
#endif
#ifndef LOST_FOR_GOOD
#define LOST_FOR_GOOD (!again || failures >= MAX_FAILURES)
#endif
#ifndef LOST_FOR_NOW
#define LOST_FOR_NOW (again && failures < MAX_FAILURES)
#endif
#ifndef IS_THE_SAME_CALL
#define IS_THE_SAME_CALL(lease) (answers[lease] != none)
#endif

#define ENDED (status == success || status == failed || status == canceled || status == timed_out)

mtype = { pending, in_progress, success, failed, canceled, timed_out };
mtype = { none, before_start, before_retry, while_suspended, while_running, too_late, released };
mtype = { claims, confirms, finishes, releases, withdraws, suspends, loses, expires, cancels, repeats };

mtype status = pending;
byte fence = 0;      /* only ever grows */
byte confirmed_fence = 0; /* of the last claim whose lease a call has named */
byte failures = 0;
byte unconfirmed = 0;   /* leases in a row that no call named */
byte holder = 0;        /* whose claim it is */
bool ran_out = false;   /* the lease did, and no heartbeat came before that */
bool suspended = false; /* it waits for a signal */
bool signaled = false;  /* one came that nobody has taken */
mtype answers[CLAIMS + 1] = none;   /* what the end of each attempt was answered */
bool again = true;      /* its kind is tried again when it is lost */
bool deaf = false;      /* the farm hears nobody, */
bool grace = false;     /* or hears again, and who lives has not been heard yet */

/* The world: who lives, and whose claim comes once more: nobody heard its answer, or the network doubled it. */
bool alive[WORKERS] = true;
byte comes_again[WORKERS];    /* claim number in the answer */

/* What the observer remembers; no step of the system reads it. */
byte accepted_of = 0;   /* the claim number of the last call that ended an attempt */
mtype verdict = none;
bool started = false;   /* some worker spoke for it */
bool result_after_cancel = false;
bool lost_of_the_living = false;
bool attempt_of_nobody = false;
bool begun_early = false;
bool vanished = false;  /* an attempt that had begun */
bool tried_too_often = false;
bool begun_twice = false;
bool forgotten = false; /* a signal that nobody waited for */
bool expired = false;
bool expired_after_start = false;
bool answered_otherwise = false;

/* The last lease of each worker, and the one before. */
byte last[WORKERS];
byte previous[WORKERS];

inline end_as(how) {
    assert(!ENDED);     /* Promise 3: an ended job is never changed again. */
    suspended = false;
    status = how;
}

inline confirm() {
    confirmed_fence = fence;
    ran_out = false;
    unconfirmed = 0;
    grace = false;      /* its worker was heard */
    started = true
}

inline accept(lease) {
    assert(lease == fence);          /* Promise 2: only the lease of the current claim speaks for the job, */
    assert(accepted_of != fence);    /* and it ends once. */
    accepted_of = fence;
    confirm();
    if
    :: verdict == while_running || verdict == before_start || verdict == before_retry -> result_after_cancel = true
    :: else
    fi
}

inline ends_attempt(lease, answer) {
    accept(lease);
    answers[lease] = answer
}

inline gets(w, lease) {
    previous[w] = last[w];
    last[w] = lease
}

/* A call that is refused changes nothing: it is no step. */

inline claim(w) {
    atomic {
        alive[w] && !deaf && MAY_BE_CLAIMED && fence < CLAIMS && RECORDED(claims, w + 1) ->
            assert(status == pending);  /* Promise 2: a claim gives a job to one worker. */
            begun_early = begun_early || suspended;
            status = in_progress;
            fence++;
            holder = w;
            ran_out = false;
            FOLLOWS;
            if
            :: gets(w, fence)
            :: IS_OPEN -> comes_again[w] = fence
            :: IS_OPEN && fence == CLAIMS && w == 0 -> gets(w, fence); comes_again[w] = fence  /* it is doubled, once */
            fi
    }
}

/* The same call again: what it claimed, as far as that still stands. */
inline claim_again(w) {
    atomic {
        alive[w] && !deaf && comes_again[w] > 0 ->
            if
            :: STILL_STANDS(comes_again[w]) ->
                assert(status == in_progress && comes_again[w] == fence);    /* Promise 2, of a repeat. */
                begun_twice = begun_twice || confirmed_fence == fence;
                ran_out = false;
                gets(w, comes_again[w])
            :: else
            fi;
            comes_again[w] = 0
    }
}

#define SPEAKS_FOR_IT(lease) (!deaf && lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING)

inline finish(lease, good) {
    atomic {
        SPEAKS_FOR_IT(lease) && RECORDED(finishes, 0) ->
            if
            :: good -> ends_attempt(lease, success); end_as(success)
            :: !good && LAST_FAILURE -> ends_attempt(lease, failed); failures++; end_as(failed)
            :: !good && FAILED_BEFORE_THE_LAST ->
                ends_attempt(lease, pending); failures++; assert(!ENDED); status = pending;
                tried_too_often = tried_too_often || failures >= MAX_FAILURES
            fi;
            FOLLOWS
    }
}

inline release(lease) {
    atomic {
        SPEAKS_FOR_IT(lease) && fence < CLAIMS && RECORDED(releases, 0) ->
            ends_attempt(lease, released);
            status = pending;
            FOLLOWS
    }
}

/* It was ready at a worker that never began it. */
inline withdraw(lease) {
    atomic {
        SPEAKS_FOR_IT(lease) && NOT_NAMED && fence < CLAIMS && RECORDED(withdraws, 0) ->
            vanished = vanished || confirmed_fence == fence;
            status = pending;
            FOLLOWS
    }
}

/* The attempt ends, and the job waits, unless what it would wait for is there. */
inline suspend(lease) {
    atomic {
        SPEAKS_FOR_IT(lease) && fence < CLAIMS && RECORDED(suspends, 0) ->
            ends_attempt(lease, pending);
            status = pending;
            if
            :: CAME_BEFORE -> begun_early = begun_early || !signaled; signaled = false
            :: else -> suspended = true
            fi;
            FOLLOWS
    }
}

/* The call that ended an attempt once more: its answer was lost. Whatever became of the job, it is answered alike. */
inline repeat(lease) {
    atomic {
        !deaf && lease > 0 && answers[lease] != none && RECORDED(repeats, answers[lease]) ->
            if
            :: IS_THE_SAME_CALL(lease)
            :: else -> answered_otherwise = true
            fi;
            FOLLOWS
    }
}

inline heartbeat(lease) {
    atomic { SPEAKS_FOR_IT(lease) && (confirmed_fence == fence || RECORDED(confirms, 0)) -> report() }
}

/* Only the first report of a lease is recorded. */
inline report() {
    if
    :: confirmed_fence == fence -> confirm()
    :: else -> confirm(); FOLLOWS
    fi
}

/* Calls that it made long ago may arrive after its death. */
proctype Worker(byte w) {
    do
    :: claim(w)
    :: claim_again(w)
    :: finish(last[w], true)
    :: finish(last[w], false)
    :: finish(previous[w], true)
    :: release(last[w])
    :: withdraw(last[w])
    :: suspend(last[w])
    :: repeat(last[w])
    :: heartbeat(previous[w])
    od
}

/* Who lives and knows of a lease reports, whatever else it does. */
proctype Heart(byte w) {
    do
    :: atomic { alive[w] && !deaf && last[w] > 0 && LEASE_IS_CURRENT(last[w]) && IS_RUNNING && 
             (ran_out || confirmed_fence < fence) && (confirmed_fence == fence || RECORDED(confirms, 0)) -> report() }
    od
}

proctype Death(byte w) {
    if
    :: IS_OPEN -> alive[w] = false
    :: IS_OPEN
    fi
}

/* Silence: the lease of a running job runs out, if nobody renews it who knows of it and can be heard. */
proctype Time() {
    do
    :: atomic { status == in_progress && !ran_out && MAY_BE_SILENT(holder) -> ran_out = true }
    od
}

/* The farm is away for a while. Then it waits until those who live have been heard. */
proctype Absence() {
    if
    :: IS_OPEN -> deaf = true;
       atomic { deaf = false; grace = true };
       atomic { !alive[holder] || last[holder] != fence || status != in_progress || !ran_out -> grace = false }
    :: IS_OPEN
    fi
}

proctype Janitor() {
    do
    :: atomic {
        JANITOR_SEES && FARM_HEARS && RECORDED(loses, 0) ->
            if
            :: !WAS_CONFIRMED && MAY_BE_AN_ANSWER ->                /* nobody spoke for it: that was no attempt */
                assert(!ENDED);
                vanished = vanished || confirmed_fence == fence;
                unconfirmed++;
                status = pending
            :: else ->
                lost_of_the_living = lost_of_the_living || (alive[holder] && last[holder] == fence);
                attempt_of_nobody = attempt_of_nobody || (confirmed_fence != fence && unconfirmed + 1 < MOST_UNCONFIRMED);
                if
                :: confirmed_fence != fence -> unconfirmed++; confirmed_fence = fence; started = true
                :: else
                fi;
                failures++;
                if
                :: LOST_FOR_NOW ->
                    assert(!ENDED);
                    tried_too_often = tried_too_often || !again || failures >= MAX_FAILURES;
                    status = pending
                :: LOST_FOR_GOOD -> end_as(timed_out)
                fi
            fi;
            ran_out = false;
            FOLLOWS
       }
    od
}

/* Before its first start alone. */
proctype Expiry() {
    if
    :: atomic { MAY_EXPIRE && RECORDED(expires, 0) ->
        expired = true;
        expired_after_start = started;
        end_as(timed_out);
        FOLLOWS
       }
    :: IS_OPEN  /* in time, or no bound */
    fi
}

/* Somebody sends the job what it waits for, or will wait for. */
proctype Sender() {
    do
    :: atomic { !ENDED && !signaled && (IS_OPEN || suspended) ->
        if
        :: IS_WAITED_FOR -> forgotten = forgotten || !suspended; suspended = false
        :: else -> signaled = true
        fi
       }
    od
}

#define VERDICT \
    (status == in_progress -> while_running : \
     (suspended -> while_suspended : (confirmed_fence == 0 -> before_start : before_retry)))

proctype Owner() {
    if
    :: atomic {
        MAY_BE_CANCELED && RECORDED(cancels, VERDICT) ->
            verdict = VERDICT;
            if
            :: status == in_progress -> confirmed_fence = fence     /* it counts as begun, whoever heard of it */
            :: else
            fi;
            end_as(canceled);
            FOLLOWS
       }
    :: atomic { ENDED && RECORDED(cancels, too_late) -> verdict = too_late; FOLLOWS }
    :: IS_OPEN  /* does not cancel */
    fi
}

init {
    byte n;
    atomic {
        if
        :: again = true
        :: again = false
        fi;
        for (n : 0 .. WORKERS - 1) {
            run Worker(n);
            run Heart(n)
        }
        for (n : 1 .. CANCELS) {
            run Owner()
        }
        n = 0;
        run Death(1);
        run Time();
        run Absence();
        run Janitor();
        run Expiry();
        run Sender();
        BEGINS
    }
}

/* Promise 3, over all of time: the end is the end. */
ltl an_end_is_final {
    [] ((status == success -> [] (status == success)) && (status == failed -> [] (status == failed))
        && (status == canceled -> [] (status == canceled)) && (status == timed_out -> [] (status == timed_out)))
}

/* Promises 1 and 5: with a janitor that runs, a job whose lease ran out does not stay with its silent worker. */
ltl silence_is_noticed { [] ((status == in_progress && ran_out) -> <> (status != in_progress || !ran_out)) }

/* Promise 4: a verdict is the truth, then and for ever. */
#define A_VERDICT_IS_TRUE ((verdict == before_start -> (status == canceled && !started)) \
        && (verdict == before_retry -> (status == canceled && started && !result_after_cancel)) \
        && (verdict == while_suspended -> (status == canceled && started && !result_after_cancel)) \
        && (verdict == while_running -> (status == canceled && !result_after_cancel)) \
        && (verdict == too_late -> (ENDED && status != canceled)))
ltl a_verdict_is_true { [] A_VERDICT_IS_TRUE }

/* A job that ends each worker before it says a word does not go round for ever. */
#define A_SILENT_JOB_IS_COUNTED (unconfirmed >= MOST_UNCONFIRMED -> failures > 0)
ltl a_silent_job_is_counted { [] A_SILENT_JOB_IS_COUNTED }

/* Promise 5: no attempt is lost whose worker lives and could have been heard, none is counted that nobody spoke for but in
 * a row of them, none that began goes uncounted, and a job times out only if its kind is not tried again, all of its
 * attempts are used up, or it expired before any. It fails when they are used up, and is not tried again after that. */
#define NOTHING_IS_LOST_FOR_NOTHING (!lost_of_the_living && !attempt_of_nobody && !vanished && !expired_after_start \
        && (status == timed_out -> (!again || failures >= MAX_FAILURES || expired)) \
        && (status == failed -> failures >= MAX_FAILURES) && !tried_too_often)
ltl nothing_is_lost_for_nothing { [] NOTHING_IS_LOST_FOR_NOTHING }

/* A suspended job begins when its signal has come, and not before; it waits for none that is there, and none is lost. */
#define A_WAIT_LASTS_UNTIL_ITS_SIGNAL (!begun_early && !(suspended && signaled) && !forgotten)
ltl a_wait_lasts_until_its_signal { [] A_WAIT_LASTS_UNTIL_ITS_SIGNAL }

/* Promise 2: the same end of the same lease gets the same answer; the same claim none that a worker has begun. */
#define A_REPEAT_IS_ANSWERED_ALIKE (!answered_otherwise && !begun_twice)
ltl a_repeat_is_answered_alike { [] A_REPEAT_IS_ANSWERED_ALIKE }

ltl what_always_holds {
    [] (A_VERDICT_IS_TRUE && A_SILENT_JOB_IS_COUNTED && NOTHING_IS_LOST_FOR_NOTHING && A_WAIT_LASTS_UNTIL_ITS_SIGNAL
        && A_REPEAT_IS_ANSWERED_ALIKE)
}
