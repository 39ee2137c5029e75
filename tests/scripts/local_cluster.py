"""A Dask cluster of two workers on this machine: prints its address and its workers' process ids, and waits."""

import os
import sys

from distributed import Client, LocalCluster

if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        print(cluster.scheduler_address, *client.run(os.getpid).values(), flush=True)
        sys.stdin.read()
