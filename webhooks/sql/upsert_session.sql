-- The parts of an agent's session in one event. Every event has another part, so each part has a key of its own (""
-- where this event lacks it) and the greater key wins; the moments are the first and the last there ever was.
-- A session belongs to the first sandbox that reports it: what comes with the token of another (`bearer`) changes nothing,
-- and no row is returned. Without a token the event is signed, by a secret that speaks for all sandboxes.
INSERT INTO webhooks_sandboxsession AS kept (
    external_id, first_seen_at, last_seen_at, phase, reason, phase_key, model, model_key, folder, folder_key, sandbox,
    sandbox_key
) VALUES (
    %(external_id)s, %(at)s, %(at)s, %(phase)s, %(reason)s, %(phase_key)s, %(model)s, %(model_key)s, %(folder)s,
    %(folder_key)s, %(sandbox)s, %(sandbox_key)s
)
ON CONFLICT (external_id) DO UPDATE SET
    first_seen_at = LEAST(kept.first_seen_at, excluded.first_seen_at),
    last_seen_at = GREATEST(kept.last_seen_at, excluded.last_seen_at),
    phase = CASE WHEN kept.phase_key < excluded.phase_key THEN excluded.phase ELSE kept.phase END,
    reason = CASE WHEN kept.phase_key < excluded.phase_key THEN excluded.reason ELSE kept.reason END,
    phase_key = GREATEST(kept.phase_key, excluded.phase_key),
    model = CASE WHEN kept.model_key < excluded.model_key THEN excluded.model ELSE kept.model END,
    model_key = GREATEST(kept.model_key, excluded.model_key),
    folder = CASE WHEN kept.folder_key < excluded.folder_key THEN excluded.folder ELSE kept.folder END,
    folder_key = GREATEST(kept.folder_key, excluded.folder_key),
    sandbox = CASE WHEN kept.sandbox_key < excluded.sandbox_key THEN excluded.sandbox ELSE kept.sandbox END,
    sandbox_key = GREATEST(kept.sandbox_key, excluded.sandbox_key)
WHERE %(bearer)s::text IS NULL OR kept.sandbox = %(bearer)s
RETURNING id
