/* One job: its lease, its claim number, its cancel. What `jobs/operations` does in a transaction is one atomic step
 * here; between steps anything may happen, in any order, any number of times.
 *
 * Two workers share the job. A worker keeps the last two leases it was given (two lines of it may have gone different
 * ways: it froze and came back, the network repeated or reordered its calls) and speaks with either at any moment. Time
 * is only what matters of it: whether the lease ran out (then it is refused, noticed or not). What is bounded, so that the search ends: claims, and failures
 * until the job is failed for good.
 *
 * `tests/formal/test_lease.py` runs the search over every state, and over mutants of this model in each of which one
 * guard is left out: each must break the claim that the guard is there for.
 */

#ifndef CLAIMS
#define CLAIMS 4        /* at most so many claims, so that the state space is finite */
#endif
#ifndef MAX_FAILURES
#define MAX_FAILURES 2  /* attempts that may fail */
#endif

/* The guards, each of which a mutant leaves out. */
#ifndef LEASE_IS_CURRENT
#define LEASE_IS_CURRENT(lease) (lease == claim_no)
#endif
#ifndef IS_RUNNING
#define IS_RUNNING (status == in_progress)
#endif
#ifndef JANITOR_SEES
#define JANITOR_SEES (status == in_progress && ran_out)
#endif
#ifndef MAY_BE_CLAIMED
#define MAY_BE_CLAIMED (status == pending)
#endif
#ifndef MAY_BE_CANCELED
#define MAY_BE_CANCELED (status == pending || status == in_progress)
#endif

#define ENDED (status == success || status == failed || status == canceled || status == timed_out)

mtype = { pending, in_progress, success, failed, canceled, timed_out };
mtype = { none, before_start, before_retry, while_running, too_late };

mtype status = pending;
byte claim_no = 0;      /* only ever grows */
byte failures = 0;
bool ran_out = false;   /* the lease did, and no heartbeat came before that */

/* What the observer remembers; no step of the system reads it. */
byte accepted_of = 0;   /* the claim number of the last call that ended an attempt */
mtype verdict = none;
bool started = false;   /* some worker had it */
bool result_after_cancel = false;

/* The last lease of each worker, and the one before. */
byte last[2];
byte previous[2];

inline end_as(how) {
    assert(!ENDED);     /* Promise 3: an ended job is never changed again. */
    status = how;
}

inline accept(lease) {
    assert(lease == claim_no);          /* Promise 2: only the lease of the current claim speaks for the job, */
    assert(accepted_of != claim_no);    /* and it ends once. */
    accepted_of = claim_no;
    if
    :: verdict == while_running || verdict == before_start || verdict == before_retry -> result_after_cancel = true
    :: else
    fi
}

inline claim(w) {
    atomic {
        if
        :: MAY_BE_CLAIMED && claim_no < CLAIMS ->
            assert(status == pending);  /* Promise 2: a claim gives a job to one worker. */
            status = in_progress;
            claim_no++;
            ran_out = false;
            started = true;
            previous[w] = last[w];
            last[w] = claim_no
        :: else
        fi
    }
}

inline finish(lease, good) {
    atomic {
        if
        :: lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING && !ran_out ->
            accept(lease);
            if
            :: good -> end_as(success)
            :: !good && failures + 1 >= MAX_FAILURES -> failures++; end_as(failed)
            :: !good && failures + 1 < MAX_FAILURES -> failures++; assert(!ENDED); status = pending
            fi
        :: else         /* 409 lease_lost, and nothing is changed */
        fi
    }
}

inline release(lease) {
    atomic {
        if
        :: lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING && !ran_out && claim_no < CLAIMS ->
            accept(lease);
            status = pending
        :: else
        fi
    }
}

inline heartbeat(lease) {
    atomic {
        if
        :: lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING && !ran_out -> ran_out = false
        :: else
        fi
    }
}

proctype Worker(byte w) {
    byte lease;
    do
    :: ENDED && last[w] == 0 -> break
    :: claim(w)
    :: lease = last[w]; finish(lease, true)
    :: lease = last[w]; finish(lease, false)
    :: lease = previous[w]; finish(lease, true)
    :: lease = previous[w]; finish(lease, false)
    :: lease = last[w]; release(lease)
    :: lease = previous[w]; heartbeat(lease)
    :: lease = last[w]; heartbeat(lease)
    od
}

/* Silence: the lease of a running job runs out. */
proctype Time() {
    do
    :: atomic { status == in_progress && !ran_out -> ran_out = true }
    od
}

proctype Janitor() {
    do
    :: atomic {
        JANITOR_SEES ->
            if
            :: end_as(timed_out)                                            /* the kind does not retry that */
            :: failures + 1 >= MAX_FAILURES -> failures++; end_as(timed_out)
            :: failures + 1 < MAX_FAILURES && claim_no < CLAIMS -> failures++; assert(!ENDED); status = pending
            fi;
            ran_out = false
       }
    od
}

proctype Owner() {
    if
    :: atomic {
        if
        :: MAY_BE_CANCELED ->
            if
            :: status == pending && claim_no == 0 -> verdict = before_start
            :: status == pending && claim_no > 0 -> verdict = before_retry
            :: status == in_progress -> verdict = while_running
            :: else
            fi;
            end_as(canceled)
        :: else -> verdict = too_late
        fi
       }
    :: true     /* does not cancel */
    fi
}

init {
    atomic {
        run Worker(0);
        run Worker(1);
        run Time();
        run Janitor();
        run Owner()
    }
}

/* Promise 3, over all of time: the end is the end. */
ltl an_end_is_final {
    [] ((status == success -> [] (status == success)) && (status == failed -> [] (status == failed))
        && (status == canceled -> [] (status == canceled)) && (status == timed_out -> [] (status == timed_out)))
}

/* Promise 4: a verdict is the truth, then and for ever. */
ltl a_verdict_is_true {
    [] ((verdict == before_start -> (status == canceled && !started))
        && (verdict == before_retry -> (status == canceled && started && !result_after_cancel))
        && (verdict == while_running -> (status == canceled && started && !result_after_cancel))
        && (verdict == too_late -> (ENDED && status != canceled)))
}

/* Promises 1 and 5: with a janitor that runs, a job whose lease ran out does not stay with its silent worker. */
ltl silence_is_noticed { [] ((status == in_progress && ran_out) -> <> (status != in_progress || !ran_out)) }
