"""What is done regularly for files and batches."""

from openai_api.operations import files, steps
from scheduling.operations import Missed, daily, declare, interval

declare("mend batches", interval(minutes=5), steps.mend)
declare("forget files of OpenAI's API", daily(hour=3, minute=40), files.retain, missed=Missed.ONCE)
