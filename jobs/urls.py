"""Addresses of jobs, queues and workers. `jobid` is declared in jobs.http."""

from django.urls import path

import jobs.http  # noqa: F401  # declares the converter
from jobs.views import attempts, bulks, export, failures, files, lists, one, queues, shared, submit, workers

app_name = "jobs"
urlpatterns = [
    path("jobs/", lists.jobs, name="list"),
    path("jobs/export.csv", export.as_csv, name="export_csv"),
    path("jobs/export.jsonl", export.as_json_lines, name="export_json_lines"),
    path("jobs/failures/", failures.failures, name="failures"),
    path("jobs/filters/save/", lists.save_filter, name="save_filter"),
    path("jobs/filters/<int:filter_id>/forget/", lists.forget_filter, name="forget_filter"),
    path("jobs/new/", submit.new, name="submit"),
    path("jobs/bulk/", bulks.index, name="bulks"),
    path("jobs/bulk/<jobid:bulk_id>/", bulks.bulk, name="bulk"),
    path("jobs/bulk/<jobid:bulk_id>/begin/", bulks.begin, name="bulk_begin"),
    path("jobs/bulk/<jobid:bulk_id>/stop/", bulks.stop, name="bulk_stop"),
    path("jobs/bulk/<jobid:bulk_id>/undo/", bulks.undo, name="bulk_undo"),
    path("jobs/shared/<str:token>/", shared.job, name="shared"),
    path("jobs/shared/<str:token>/files/<str:name>", shared.file, name="shared_file"),
    path("jobs/shared/<str:token>/inputs/<str:name>", shared.input_file, name="shared_input"),
    path("jobs/shared/<str:token>/output/<int:fence>", shared.output, name="shared_output"),
    path("jobs/<jobid:job_id>/", one.job, name="job"),
    path("jobs/<jobid:job_id>/cancel/", one.cancel, name="cancel"),
    path("jobs/<jobid:job_id>/retry/", one.retry, name="retry"),
    path("jobs/<jobid:job_id>/run-now/", one.run_now, name="run_now"),
    path("jobs/<jobid:job_id>/priority/", one.change_priority, name="priority"),
    path("jobs/<jobid:job_id>/clone/", one.clone, name="clone"),
    path("jobs/<jobid:job_id>/attempts/", attempts.compared, name="attempts"),
    path("jobs/<jobid:job_id>/share/", one.share, name="share"),
    path("jobs/<jobid:job_id>/unshare/", one.unshare, name="unshare"),
    path("jobs/<jobid:job_id>/files/<str:name>", files.file, name="file"),
    path("jobs/<jobid:job_id>/files/<str:name>/link", files.link, name="file_link"),
    path("jobs/<jobid:job_id>/inputs/<str:name>", files.input_file, name="input"),
    path("jobs/<jobid:job_id>/output/<int:fence>", files.output, name="output"),
    path("files/<str:token>", files.signed, name="signed_file"),
    path("queues/", queues.queues, name="queues"),
    path("queues/<str:name>/", queues.queue, name="queue"),
    path("queues/<str:name>/pause/", queues.pause, name="pause"),
    path("queues/<str:name>/resume/", queues.resume, name="resume"),
    path("queues/<str:name>/ceiling/", queues.set_ceiling, name="ceiling"),
    path("timeline/", workers.timeline, name="timeline"),
    path("workers/", workers.workers, name="workers"),
    path("workers/connect/", workers.connect, name="connect"),
    path("workers/<jobid:worker_id>/", workers.worker, name="worker"),
    path("workers/<jobid:worker_id>/drain/", workers.drain, name="drain"),
    path("workers/<jobid:worker_id>/undrain/", workers.undrain, name="undrain"),
    path("workers/<jobid:worker_id>/labels/", workers.label, name="label"),
    path("workers/<jobid:worker_id>/rotate/", workers.rotate, name="rotate"),
    path("workers/<jobid:worker_id>/revoke/", workers.revoke, name="revoke"),
]
