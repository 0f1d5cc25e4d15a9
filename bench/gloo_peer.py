"""The peer of bench/hosts_net: PyTorch over Gloo, run once on each host.

    gloo_peer.py sum FLOATS STEPS    sums an array over the hosts by all_reduce
    gloo_peer.py alexnet ROWS STEPS  steps of AlexNet by DistributedDataParallel, with ROWS rows a host
    gloo_peer.py alone ROWS STEPS    the same without other hosts

RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME say who the hosts are. Prints the best
and the median of all steps in milliseconds."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


def alexnet():
    """The net of recipes/alexnet.ini: with two groups of conv2, conv4 and conv5, 61 M parameters."""
    pool, relu, lrn = nn.MaxPool2d(3, 2), nn.ReLU(), nn.LocalResponseNorm(5)
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), relu, lrn, pool, nn.Conv2d(96, 256, 5, padding=2, groups=2), relu, lrn, pool,
        nn.Conv2d(256, 384, 3, padding=1), relu, nn.Conv2d(384, 384, 3, padding=1, groups=2), relu,
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu, pool, nn.Flatten(),
        nn.Linear(9216, 4096), relu, nn.Dropout(), nn.Linear(4096, 4096), relu, nn.Dropout(),
        nn.Linear(4096, 1000))


def training(rows, alone):
    net = alexnet()
    net = net if alone else nn.parallel.DistributedDataParallel(net)
    sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    image, label = torch.randn(rows, 3, 227, 227), torch.randint(1000, (rows,))

    def step():
        sgd.zero_grad()
        nn.functional.cross_entropy(net(image), label).backward()
        sgd.step()
    return step


def main():
    what, size, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    if what != "alone":
        dist.init_process_group("gloo")
    if what == "sum":
        x = torch.ones(size)

        def step():
            dist.all_reduce(x)
    else:
        step = training(size, what == "alone")
    times = []
    for k in range(steps + 1):
        if what != "alone":
            dist.barrier()
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    del times[0]  # touches its memory
    print("best %.2f ms, median %.2f ms" % (min(times), statistics.median(times)), flush=True)
    if what != "alone":
        dist.barrier()
        time.sleep(0.5)  # until the other host has left the barrier, too
    os._exit(0)  # Gloo may abort when its threads are destroyed


main()
