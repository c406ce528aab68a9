-- The endpoint that an owner's submits with this address made, as it stays while the transaction lasts: retention removes
-- those that nobody uses, and passes over what somebody else has.
SELECT id FROM outbox_endpoint
WHERE is_callback AND url = %(url)s::text
  AND (owner_id = %(owner_id)s::integer OR owner_id IS NULL AND %(owner_id)s::integer IS NULL)
FOR KEY SHARE
