-- The API token whose key has this hash, if it still opens something and its person may log in, with that person.
-- Every call of every client begins with this: as a query of the ORM its text was built, and planned, each time. The
-- versions of both rows are for who remembers them (docs/adr/0115).
SELECT token.id, token.user_id, token.name, token.key_hash, token.key_hint, token.scopes, token.keep_content, token.created_at,
       token.expires_at, token.last_used_at, token.revoked_at, token.addresses,
       token.xmin::text AS version, person.xmin::text AS person_version,
       coalesce(token.last_used_at > statement_timestamp() - make_interval(secs => %(every_s)s::float8), false)
         AND (%(address)s::text = '' OR %(address)s::text = ANY (token.addresses) OR cardinality(token.addresses) >= %(most)s::integer) AS is_noted,
       person.id AS person_id, person.password AS person_password, person.last_login AS person_last_login,
       person.is_superuser AS person_is_superuser, person.username AS person_username,
       person.first_name AS person_first_name, person.last_name AS person_last_name, person.email AS person_email,
       person.is_staff AS person_is_staff, person.is_active AS person_is_active,
       person.date_joined AS person_date_joined
FROM accounts_apitoken AS token JOIN auth_user AS person ON person.id = token.user_id AND person.is_active
WHERE token.key_hash = %(key_hash)s::text AND token.revoked_at IS NULL
  AND (token.expires_at IS NULL OR token.expires_at > statement_timestamp())
