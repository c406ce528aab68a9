-- The names of the settings that this server knows: a dump made for a newer one sets others too, and is refused there.
SELECT name FROM pg_settings
