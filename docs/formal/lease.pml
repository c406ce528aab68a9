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
 * `tests/formal/test_lease.py` runs the search over every state, and over mutants of this model in each of which one
 * guard is left out: each must break the claim that the guard is there for.
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
#define MAY_BE_CLAIMED (status == pending)
#endif
#ifndef MAY_BE_CANCELED
#define MAY_BE_CANCELED (status == pending || status == in_progress)
#endif
#ifndef STILL_STANDS
#define STILL_STANDS(lease) (status == in_progress && lease == fence && confirmed_fence < lease)
#endif

#define ENDED (status == success || status == failed || status == canceled || status == timed_out)

mtype = { pending, in_progress, success, failed, canceled, timed_out };
mtype = { none, before_start, before_retry, while_running, too_late };

mtype status = pending;
byte fence = 0;      /* only ever grows */
byte confirmed_fence = 0; /* of the last claim whose lease a call has named */
byte failures = 0;
byte unconfirmed = 0;   /* leases in a row that no call named */
byte holder = 0;        /* whose claim it is */
bool ran_out = false;   /* the lease did, and no heartbeat came before that */
bool again = true;      /* its kind is tried again when it is lost */
bool deaf = false;      /* the farm hears nobody, */
bool grace = false;     /* or hears again, and who lives has not been heard yet */

/* The world: who lives, and whose claim was answered by nobody hearing it. */
bool alive[2] = true;
byte unheard[2];        /* claim number in the answer that was lost */

/* What the observer remembers; no step of the system reads it. */
byte accepted_of = 0;   /* the claim number of the last call that ended an attempt */
mtype verdict = none;
bool started = false;   /* some worker spoke for it */
bool result_after_cancel = false;
bool lost_of_the_living = false;
bool attempt_of_nobody = false;

/* The last lease of each worker, and the one before. */
byte last[2];
byte previous[2];

inline end_as(how) {
    assert(!ENDED);     /* Promise 3: an ended job is never changed again. */
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

inline gets(w, lease) {
    previous[w] = last[w];
    last[w] = lease
}

/* A call that is refused, or is the first answer once more, changes nothing: it is no step. */

inline claim(w) {
    atomic {
        alive[w] && !deaf && MAY_BE_CLAIMED && fence < CLAIMS ->
            assert(status == pending);  /* Promise 2: a claim gives a job to one worker. */
            status = in_progress;
            fence++;
            holder = w;
            ran_out = false;
            if
            :: gets(w, fence)
            :: unheard[w] = fence    /* the answer is lost on its way */
            fi
    }
}

/* The same call again: what it claimed, as far as that still stands. */
inline claim_again(w) {
    atomic {
        alive[w] && !deaf && unheard[w] > 0 ->
            if
            :: STILL_STANDS(unheard[w]) ->
                assert(status == in_progress && unheard[w] == fence);    /* Promise 2, of a repeat. */
                ran_out = false;
                gets(w, unheard[w])
            :: else
            fi;
            unheard[w] = 0
    }
}

inline finish(lease, good) {
    atomic {
        !deaf && lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING ->
            accept(lease);
            if
            :: good -> end_as(success)
            :: !good && failures + 1 >= MAX_FAILURES -> failures++; end_as(failed)
            :: !good && failures + 1 < MAX_FAILURES -> failures++; assert(!ENDED); status = pending
            fi
    }
}

inline release(lease) {
    atomic {
        !deaf && lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING && fence < CLAIMS ->
            accept(lease);
            status = pending
    }
}

inline heartbeat(lease) {
    atomic { !deaf && lease > 0 && LEASE_IS_CURRENT(lease) && IS_RUNNING -> confirm() }
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
    :: heartbeat(previous[w])
    od
}

/* Who lives and knows of a lease reports, whatever else it does. */
proctype Heart(byte w) {
    do
    :: atomic { alive[w] && !deaf && last[w] > 0 && LEASE_IS_CURRENT(last[w]) && IS_RUNNING && (ran_out || confirmed_fence < fence) -> confirm() }
    od
}

proctype Death(byte w) {
    if
    :: alive[w] = false
    :: true
    fi
}

/* Silence: the lease of a running job runs out, if nobody renews it who knows of it and can be heard. */
proctype Time() {
    do
    :: atomic { status == in_progress && !ran_out && (!alive[holder] || deaf || last[holder] != fence) -> ran_out = true }
    od
}

/* The farm is away for a while. Then it waits until those who live have been heard. */
proctype Absence() {
    if
    :: deaf = true;
       atomic { deaf = false; grace = true };
       atomic { !alive[holder] || last[holder] != fence || status != in_progress || !ran_out -> grace = false }
    :: true
    fi
}

proctype Janitor() {
    do
    :: atomic {
        JANITOR_SEES && FARM_HEARS ->
            if
            :: !WAS_CONFIRMED && MAY_BE_AN_ANSWER ->                /* nobody spoke for it: that was no attempt */
                assert(!ENDED);
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
                :: again && failures < MAX_FAILURES -> assert(!ENDED); status = pending
                :: else -> end_as(timed_out)
                fi
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
            :: status == pending && confirmed_fence == 0 -> verdict = before_start
            :: status == pending && confirmed_fence > 0 -> verdict = before_retry
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
        if
        :: again = true
        :: again = false
        fi;
        run Worker(0);
        run Worker(1);
        run Heart(0);
        run Heart(1);
        run Death(1);
        run Time();
        run Absence();
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
        && (verdict == while_running -> (status == canceled && !result_after_cancel))
        && (verdict == too_late -> (ENDED && status != canceled)))
}

/* Promises 1 and 5: with a janitor that runs, a job whose lease ran out does not stay with its silent worker. */
ltl silence_is_noticed { [] ((status == in_progress && ran_out) -> <> (status != in_progress || !ran_out)) }

/* A job that ends each worker before it says a word does not go round for ever. */
ltl a_silent_job_is_counted { [] (unconfirmed >= MOST_UNCONFIRMED -> failures > 0) }

/* Promise 5: no attempt is lost whose worker lives and could have been heard, none is counted that nobody spoke for but in
 * a row of them, and a job times out only if its kind is not tried again or all of its attempts are used up. */
ltl nothing_is_lost_for_nothing {
    [] (!lost_of_the_living && !attempt_of_nobody && (status == timed_out -> (!again || failures >= MAX_FAILURES)))
}
