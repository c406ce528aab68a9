"""OpenAI's API in front of the farm: each call is a job."""
