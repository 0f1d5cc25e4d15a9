"""The figures of bench/hosts_net. Host i is the namespace h<i> with address 10.0.0.<i + 1>."""
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import measure
import report
from common import Row, Sheet, Skipped

HOSTS = 2
NAMESPACES = 4
FLOATS = {"61 M floats": 61000000, "0.15 M floats": 145578}
PORT = 29400
ASYNCHRONOUS = ("downpour", "hogwild")
AIMS = {("61 M floats", "0", "trusted"): 1, ("61 M floats", "0", "private"): 1.6,
        ("61 M floats", "1gbit", "private"): 1.05}


# ---- The network --------------------------------------------------------------------------------

def enter():
    """Starts this program once more, in namespaces of its own."""
    if os.environ.get("SINGA_BENCH_INSIDE"):
        return
    os.environ["SINGA_BENCH_INSIDE"] = "1"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not shutil.which("unshare"):
        sys.exit("bench: there is no command unshare")
    os.execvp("unshare", ["unshare", "-Urnmpf", "--kill-child", "--mount-proc", sys.executable] + sys.argv)


def ip(*words):
    measure.run(["ip"] + list(words))


def build_network():
    """Makes the hosts, once."""
    if os.path.exists("/run/netns/h0"):
        return
    try:
        measure.run(["mount", "-t", "tmpfs", "none", "/run"])
        ip("link", "add", "br0", "type", "bridge")
        ip("link", "set", "br0", "up")
        for i in range(NAMESPACES):
            host, port = "h%d" % i, "v%d" % i
            ip("netns", "add", host)
            ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host)
            ip("link", "set", port, "master", "br0", "up")
            ip("-n", host, "addr", "add", "10.0.0.%d/24" % (i + 1), "dev", "eth0")
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "set", "eth0", "up")
    except (measure.Failed, OSError) as e:
        raise Skipped("no network namespaces: %s" % e)


def limit(rate):
    """What each host sends: "0" or a rate of tc."""
    for i in range(NAMESPACES):
        subprocess.run(["tc", "-n", "h%d" % i, "qdisc", "del", "dev", "eth0", "root"],
                       stderr=subprocess.DEVNULL)
        if rate != "0":
            try:
                measure.run(["tc", "-n", "h%d" % i, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                             "burst", "256k", "latency", "20ms"])
            except measure.Failed as e:
                raise Skipped("this kernel has no tbf: %s" % e)


def on(host):
    return ["ip", "netns", "exec", "h%d" % host]


def together(commands, env=lambda host: {}):
    """Runs a command on each host; returns the output of that of host 0."""
    return ended_together(commands, env).out


def ended_together(commands, env):
    """Runs a command on each host; returns how that of host 0 ended."""
    ended, failures = [None] * len(commands), []

    def one(host):
        try:
            ended[host] = measure.run(on(host) + commands[host], env=env(host), timeout_s=300)
        except measure.Failed as e:
            failures.append(e)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(commands))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    return ended[0]


def next_port():
    global PORT
    PORT += 1
    return str(PORT)


# ---- The two sides ------------------------------------------------------------------------------

def best(text):
    return float(re.search(r"best ([0-9.]+) ms", text).group(1))


def median(text):
    return float(re.search(r"median ([0-9.]+) ms", text).group(1))


def our_sum(bench, network, floats, steps):
    program = os.path.join(os.path.dirname(os.path.abspath(bench.options.binary)), "tests", "hosts_sum")
    port = next_port()
    return best(together([[program, str(i), str(HOSTS), "10.0.0.1", port, network, str(floats), str(steps)]
                            for i in range(HOSTS)]))


def torch(bench, hosts, *words):
    """What bench/gloo_peer.py prints on host 0."""
    peer = os.path.join(bench.root, "bench", "gloo_peer.py")
    port = next_port()

    def env(host):
        return {"RANK": str(host), "WORLD_SIZE": str(hosts), "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": port,
                "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    return together([[bench.options.torch, peer] + [str(w) for w in words]] * hosts, env)


def key_of(bench):
    path = bench.path("key")
    if not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(32))
    return path


def job(bench, recipe, hosts, steps, sets, data=None, key=True):
    """The commands and environments of a job: one math thread on each host."""
    port = next_port()
    commands = [[bench.options.binary, "run", bench.recipe(recipe), "--no-ui", "--share-machine", "--steps",
                 str(steps), "--out", bench.path("out-%s-%d" % (port, i))] for i in range(hosts)]
    for c in commands:
        for text in sets:
            c += ["--set", text]

    def env(host):
        home = bench.path("host%d" % host)
        os.makedirs(home, exist_ok=True)
        own = {"OMP_NUM_THREADS": "1", "XDG_STATE_HOME": home, "SINGA_DB": os.path.join(home, "history.db"),
               "SINGA_REGISTRY": os.path.join(home, "registry"), "SINGA_DATA": data or bench.path("nothing"),
               **({"SINGA_JOB_KEY": key_of(bench)} if key else {})}
        if hosts > 1:
            own.update(RANK=str(host), WORLD_SIZE=str(hosts), MASTER_ADDR="10.0.0.1", MASTER_PORT=port)
        return own
    return commands, env


def trained(bench, recipe, hosts, rows, steps, sets=(), framework="allreduce", evaluates=0, data=None, key=True):
    """What a job with that many rows on each host prints. evaluates: steps between evaluations."""
    return ended_job(bench, recipe, hosts, rows, steps, sets, framework, evaluates, data, key).out


def ended_job(bench, recipe, hosts, rows, steps, sets=(), framework="allreduce", evaluates=0, data=None, key=True):
    """How host 0 of such a job ended."""
    batch = rows if framework in ASYNCHRONOUS else rows * hosts  # of a group, or of all hosts
    commands, env = job(bench, recipe, hosts, steps, [
        "job.batch=%d" % batch, "job.eval_every=%d" % evaluates, "job.checkpoint_every=0",
        "job.checkpoint_ends=no", "cluster.framework=" + framework] + list(sets), data, key)
    return ended_together(commands, env)


def step_of(out):
    """Milliseconds per step."""
    value, unit = re.search(r"samples/s, ([0-9.]+) (us|ms|s) per step", out).groups()
    return float(value) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def step_ms(bench, recipe, hosts, rows, steps, sets=(), framework="allreduce", key=True):
    """Milliseconds per step of a job with that many rows on each host."""
    return step_of(trained(bench, recipe, hosts, rows, steps, sets, framework, key=key))


# ---- Figures ------------------------------------------------------------------------------------

def sums(bench):
    build_network()
    rows = []
    for rate in bench.options.rates.split(","):
        limit(rate)
        for name, floats in FLOATS.items():
            steps = 3 if floats > 1000000 else 200
            floats, steps = (100000, 2) if bench.options.trial else (floats, steps)
            ours, theirs = {"trusted": [], "private": []}, []
            for _ in range(bench.options.repeats):
                for network in ours:
                    ours[network].append(our_sum(bench, network, floats, steps))
                theirs.append(best(torch(bench, HOSTS, "sum", floats, steps)))
            for network, values in ours.items():
                what = "%s, %s, %s" % (name, "no limit" if rate == "0" else rate, network)
                bench.say("%s: %s against %s" % (what, values, theirs))
                aim = AIMS.get((name, rate, network))
                rows.append(Row(what, "Gloo", "ms", values, theirs, aim, at_most=True))
    limit("0")
    return rows


def alexnet(bench):
    build_network()
    limit("1gbit")
    rows, steps = bench.options.rows, 2 if bench.options.trial else 6
    ours, theirs = [], []
    for _ in range(bench.options.repeats):
        alone = step_ms(bench, "alexnet.ini", 1, rows, steps)
        both = step_ms(bench, "alexnet.ini", HOSTS, rows, steps, ["cluster.comm=auto"])
        its_own = median(torch(bench, 1, "alone", rows, steps))
        its = median(torch(bench, HOSTS, "alexnet", rows, steps))
        bench.say("alexnet: one host %.0f ms, two %.0f; PyTorch %.0f, %.0f" % (alone, both, its_own, its))
        ours.append(max(both - alone, 1e-3))
        theirs.append(max(its - its_own, 1e-3))
    limit("0")
    return [Row("AlexNet, %d rows a host, 1 Gbit/s, added by the exchange" % rows, "DDP", "ms", ours, theirs,
                None, note="one math thread a host; two hosts share the memory of one machine")]


def short(bench):
    build_network()
    rows = []
    for recipe, batch in (("digits.ini", 32), ("mnist-mlp.ini", 64)):
        steps = 20 if bench.options.trial else 3000
        ours, theirs = [], []
        for _ in range(bench.options.repeats):
            theirs.append(step_ms(bench, recipe, 1, batch, steps))
            ours.append(step_ms(bench, recipe, HOSTS, batch, steps))
        rows.append(Row("step of %s, %d rows a host" % (recipe, batch), "one host", "ms", ours, theirs, None))
    return rows


def cpu_seconds(host):
    """CPU time so far of the processes of a host."""
    ticks = 0
    for pid in measure.run(["ip", "netns", "pids", "h%d" % host]).out.split():
        with open("/proc/%s/stat" % pid) as f:
            values = f.read().rpartition(")")[2].split()
        ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def idle(bench):
    """With next to no bandwidth both hosts wait for messages all the time."""
    build_network()
    commands, env = job(bench, "digits.ini", HOSTS, 1000000, ["cluster.bandwidth=1kB"])
    children = [subprocess.Popen(on(i) + commands[i], env={**os.environ, **env(i)},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(HOSTS)]
    time.sleep(3)
    seconds, before = 2 if bench.options.trial else 10, [cpu_seconds(i) for i in range(HOSTS)]
    time.sleep(seconds)
    shares = [100 * (cpu_seconds(i) - before[i]) / seconds for i in range(HOSTS)]
    for c in children:
        c.kill()
        c.wait()
    return [Row("waiting host", "1 %", "% of a core", shares, [1] * HOSTS, 1, at_most=True)]


def resident_mb(out):
    value, unit = re.search(r"([0-9.]+) ([MG])B resident", out).groups()
    return float(value) * {"M": 1, "G": 1000}[unit]


def strangers(bench):
    """A thousand of them, from a host that is not one of the job, at the port where its hosts met."""
    build_network()
    steps, ms, cpu, mb = 200 if bench.options.trial else 8000, ([], []), ([], []), ([], [])
    for _ in range(bench.options.repeats):
        for k in range(2):
            child = None
            if k == 0:
                child = subprocess.Popen(
                    ["nice", "-n", "19"] + on(HOSTS) +
                    ["sh", "-c", 'sleep 1; exec "$0" "$@"', sys.executable,
                     os.path.join(bench.root, "tests", "net", "stranger.py"), "10.0.0.1", str(PORT + 1), "1000", "3"],
                    stdout=subprocess.PIPE, text=True)
            ended = ended_job(bench, "digits.ini", HOSTS, 32, steps)
            ms[k].append(step_of(ended.out))
            cpu[k].append(1e3 * ended.cpu_seconds / steps)
            mb[k].append(resident_mb(ended.out))
            if child:
                bench.say("strangers: %s" % child.communicate()[0].split("\n")[1])
    least = min(mb[1])
    return [Row("step while 1000 strangers connect", "none", "ms", *ms, 1.05, at_most=True),
            Row("CPU time of host 0 for a step", "none", "ms", *cpu, 1.05, at_most=True),
            Row("memory of host 0 with them", "none", "MB", *mb, (least + 1.05) / least, at_most=True,
                note="at most 1 MiB more")]


def mpi_step_ms(bench, recipe, rows, steps):
    """The same job over Open MPI, whose mpirun reaches a host by an agent that enters its namespace."""
    agent, home = bench.path("agent"), bench.path("mpi")
    os.makedirs(home, exist_ok=True)
    with open(agent, "w") as f:
        f.write('#!/bin/sh\nhost=h$((${1##*.} - 1))\nshift\nexec nsenter --net=/run/netns/$host sh -c "$*"\n')
    os.chmod(agent, 0o755)
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
           "XDG_STATE_HOME": home, "SINGA_DB": os.path.join(home, "history.db"), "SINGA_DATA": bench.path("nothing"),
           "SINGA_REGISTRY": os.path.join(home, "registry")}
    hosts = ",".join("10.0.0.%d:1" % (i + 1) for i in range(HOSTS))
    command = ["mpirun.openmpi", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--bind-to", "none",
               "--mca", "btl_tcp_if_include", "10.0.0.0/24", "--mca", "oob_tcp_if_include", "10.0.0.0/24",
               "--host", hosts]
    for name in env:
        command += ["-x", name]
    out = measure.run(on(0) + command + [os.path.abspath(bench.options.binary), "run", bench.recipe(recipe), "--no-ui",
                                         "--share-machine", "--steps", str(steps), "--out", os.path.join(
                                             home, next_port())] + [
        word for text in ["job.batch=%d" % (rows * HOSTS), "job.eval_every=0", "job.checkpoint_every=0",
                          "job.checkpoint_ends=no", "cluster.framework=allreduce"] for word in ("--set", text)],
        env=env, timeout_s=300).out
    if "fabric mpi (Open MPI" not in out:
        raise Skipped("no module for Open MPI")
    return step_of(out)


def mpi(bench):
    """The engine mpi against tcp without encryption."""
    build_network()
    if not shutil.which("mpirun.openmpi"):
        raise Skipped("there is no mpirun.openmpi")
    rows = []
    for rate in bench.options.rates.split(","):
        limit(rate)
        steps, ours, theirs = 5 if bench.options.trial else 300, [], []
        for _ in range(bench.options.repeats):
            ours.append(mpi_step_ms(bench, "mnist-mlp.ini", 64, steps))
            theirs.append(step_ms(bench, "mnist-mlp.ini", HOSTS, 64, steps, ["cluster.network=trusted"], key=False))
            bench.say("mpi, %s: %.3g ms, tcp %.3g" % (rate, ours[-1], theirs[-1]))
        rows.append(Row("step of mnist-mlp.ini over Open MPI, %s" % ("no limit" if rate == "0" else rate), "tcp", "ms",
                        ours, theirs, None))
    limit("0")
    return rows


SIDES = (("sandblaster", "sandblaster", []), ("allreduce", "allreduce", []), ("downpour", "downpour", []),
         ("downpour, staleness 4", "downpour", ["cluster.staleness=4"]), ("hogwild", "hogwild", []))


# From the first step of host 0 to the evaluation at the end, before which all hosts meet: host 0 may be far
# ahead of the others.
SPAN = ("SELECT max(step) - min(step), max(CASE WHEN split <> 'train' THEN time END) - min(time) FROM metrics"
        " WHERE run_id = (SELECT max(id) FROM runs)")


def steps_per_s(bench, hosts, rows, steps, sets, framework):
    """Of a job with one worker on each host, by its slowest host."""
    sets = ["cluster.worker_groups=1", "cluster.workers_per_group=1", "data.test.part=0, 0.01"] + sets
    trained(bench, "mnist-mlp.ini", hosts, rows, steps, sets, framework, data=os.environ.get("SINGA_DATA"))
    out = measure.run([bench.options.binary, "history", "sql", SPAN],
                      env={"SINGA_DB": os.path.join(bench.path("host0"), "history.db")}).out
    count, seconds = out.splitlines()[-1].split("\t")
    return float(count) / float(seconds)


def asynchronous_rates(bench, rate, rows):
    """{(hosts, framework): [steps per second, ...]}"""
    made, steps = {}, 5 if bench.options.trial else 30 if rate.endswith("mbit") else 150
    for _ in range(bench.options.repeats):
        for hosts in (2, 3):
            for name, framework, sets in SIDES:
                made.setdefault((hosts, name), []).append(steps_per_s(bench, hosts, rows, steps, sets, framework))
                bench.say("%d hosts, %s, %s: %.4g steps/s" % (hosts, rate, name, made[hosts, name][-1]))
    return made


def asynchronous(bench):
    """Hosts that wait for each other in every step, and hosts that do not."""
    build_network()
    batch, rows = 64, []
    cells = [["hosts", "network", "framework", "steps/s", "samples/s"]]
    for rate in bench.options.rates.split(","):
        limit(rate)
        network = "no limit" if rate == "0" else rate
        made = asynchronous_rates(bench, rate, batch)
        for (hosts, name), values in made.items():
            steps = measure.spread(values)[1]
            cells.append([str(hosts), network, name, report.number(steps),
                          report.number(steps * batch * hosts)])
            if name != "sandblaster":
                rows.append(Row("%d hosts, %s, %s" % (hosts, network, name), "sandblaster", "steps/s", values,
                                made[hosts, "sandblaster"], None))
    limit("0")
    text = ("Hosts in step (sandblaster, allreduce) and asynchronous hosts: mnist-mlp on %s, one worker and %d rows a "
            "host.\nA step is one update of all hosts together, or one of each; the time is that of the slowest host. "
            "Medians.\n%s" % ("MNIST" if os.environ.get("SINGA_DATA") else "synthetic data", batch,
                              report.align(cells, (1, 2))))
    return rows + [Sheet(text, "")]


FIGURES = {"sums": sums, "alexnet": alexnet, "short": short, "idle": idle, "strangers": strangers, "mpi": mpi,
           "asynchronous": asynchronous}
