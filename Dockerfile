# One image for every part of a farm; which part is the command: `web --host 0.0.0.0`, `janitor`, `cluster --actions`.
FROM python:3.11-slim-bookworm
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin jobfarm \
    && install -d -o jobfarm -g jobfarm /var/lib/jobfarm-files
WORKDIR /opt/jobfarm
COPY requirements.txt .
RUN pip install -r requirements.txt
COPY . .
# Who runs it cannot write here: without this each start compiles 370 modules anew.
RUN python -m compileall -q .
USER jobfarm
ENV JOBFARM_DATA=/var/lib/jobfarm-files
VOLUME /var/lib/jobfarm-files
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "manage.py"]
CMD ["web", "--host", "0.0.0.0"]
