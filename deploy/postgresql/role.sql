-- What the farm asks for when it connects, for a farm behind a pooler in transaction mode, which cannot have it for each
-- client: no compiling of short statements, and a claim that is planned once. As the farm's own role, on its database:
--     psql "$DATABASE_DIRECT_URL" -f deploy/postgresql/role.sql
DO $$
BEGIN
    EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET jit = off', current_database());
    EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET plan_cache_mode = force_generic_plan', current_database());
END
$$;
