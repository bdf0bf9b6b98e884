# What compose.yaml runs: the server and its runs, as a user without rights.
FROM python:3.12-slim

RUN useradd --system --create-home --home-dir /var/lib/dpcost dpcost \
    && mkdir -p /app/reports/out && chown dpcost /app/reports/out
WORKDIR /app
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY flows flows
COPY tasks tasks
COPY dpalgos dpalgos
COPY dpcost dpcost
COPY data data
COPY reports reports
RUN pip install --no-cache-dir --constraint constraints.txt --editable '.[dask,postgres,s3]'
USER dpcost
# The heaps as in `make serve`.
ENV DPCOST_HOME=/var/lib/dpcost MALLOC_ARENA_MAX=2
