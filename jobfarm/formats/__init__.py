"""How the administration writes moments, for Django to find (FORMAT_MODULE_PATH)."""
