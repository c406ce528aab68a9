# One image for every part of a farm; which part is the command: `web --host 0.0.0.0`, `janitor`, `cluster --actions`.
FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheel .

FROM python:3.11-slim-bookworm
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin jobfarm \
    && install -d -o jobfarm -g jobfarm /var/lib/jobfarm-files
COPY --from=wheel /wheel /source/constraints.txt /wheel/
# The versions that were tested; pip compiles the modules, which who runs them could not write.
RUN pip install -c /wheel/constraints.txt "$(echo /wheel/jobfarm-*.whl)[server]"
USER jobfarm
WORKDIR /
ENV JOBFARM_DATA=/var/lib/jobfarm-files
VOLUME /var/lib/jobfarm-files
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["jobfarm"]
CMD ["web", "--host", "0.0.0.0"]
