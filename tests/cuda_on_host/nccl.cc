/* NCCL for devices on the host: see README.md. The operations of a group run when it ends and all
 * members have reached them; members of one id may be in groups of several threads, which stand for
 * processes. As in NCCL's non-blocking mode, communicators stay in progress for some queries;
 * NCCL_ON_HOST=hang in the environment makes the second one hang, =late makes it join late, =broken
 * makes it fail, and =stuck makes its abort hang until that is taken away. While one is in progress
 * only the thread that began the operation may query it, since that also ends groups. */
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace
{
struct call {
    float *x;
    size_t n;
    ncclComm *comm;
};

/* The members of an id. */
struct world {
    std::vector<ncclComm *> member;
    size_t joined;
    std::vector<std::vector<call>> waiting; /* of each member: operations that did not run yet */
};
} // namespace

struct ncclComm {
    int rank, ranks;
    int questions; /* number of queries still answered with ncclInProgress; -1: all */
    bool broken, finalized;
    std::thread::id owner; /* of the operation in progress */
    std::shared_ptr<world> all;
    bool waits; /* for other members */
};

namespace
{
std::mutex lock; /* guards all below, and the worlds */
std::map<std::string, std::shared_ptr<world>> worlds;
uint64_t ids;
thread_local std::vector<call> calls;
thread_local int depth;

bool is_planted(const char *what)
{
    const char *planted = std::getenv("NCCL_ON_HOST");
    return planted && std::strcmp(planted, what) == 0;
}

void begin_something(ncclComm *comm)
{
    bool second = comm->rank == 1;
    comm->questions = second && is_planted("hang") ? -1 : second && is_planted("late") ? 1000 : 3;
    comm->owner = std::this_thread::get_id();
    comm->broken = second && is_planted("broken");
}

/* Runs the operations that all members have reached. */
ncclResult_t run_complete(world &w)
{
    for (;;) {
        for (const auto &own : w.waiting)
            if (own.empty())
                return ncclSuccess;

        std::vector<float> sum(w.waiting[0][0].n);
        for (const auto &own : w.waiting) {
            if (own[0].n != sum.size())
                return ncclInvalidUsage;
            for (size_t i = 0; i < sum.size(); i++)
                sum[i] += own[0].x[i];
        }
        for (auto &own : w.waiting) {
            std::memcpy(own[0].x, sum.data(), sum.size() * sizeof(float));
            own[0].comm->waits = own.size() > 1;
            own.erase(own.begin());
        }
    }
}

ncclResult_t run_group()
{
    std::lock_guard<std::mutex> held(lock);
    ncclResult_t rc = ncclSuccess;

    for (const call &c : calls) {
        c.comm->all->waiting[(size_t)c.comm->rank].push_back(c);
        c.comm->waits = true;
        begin_something(c.comm);
    }
    for (const call &c : calls)
        rc = rc == ncclSuccess ? run_complete(*c.comm->all) : rc;
    calls.clear();
    return rc == ncclSuccess ? ncclInProgress : rc;
}

/* What a member has not reached together with the others never runs. */
void leave(ncclComm *comm)
{
    std::lock_guard<std::mutex> held(lock);
    comm->all->waiting[(size_t)comm->rank].clear();
    comm->all->member[(size_t)comm->rank] = nullptr;
    delete comm;
}
} // namespace

extern "C" {

/* The module uses no other function of the runtime. */
cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 29901;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    std::lock_guard<std::mutex> held(lock);
    std::memset(id, 0, sizeof *id);
    ids++;
    std::memcpy(id, &ids, sizeof ids);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart()
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    return --depth == 0 ? run_group() : ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (depth != 1 || config->blocking != 0 || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;

    std::lock_guard<std::mutex> held(lock);
    std::shared_ptr<world> &w = worlds[std::string((const char *)&id, sizeof id)];
    if (!w)
        w = std::make_shared<world>(world{std::vector<ncclComm *>((size_t)ranks), 0,
                                          std::vector<std::vector<call>>((size_t)ranks)});
    if (w->member.size() != (size_t)ranks || w->member[(size_t)rank])
        return ncclInvalidArgument;

    *out = new ncclComm{rank, ranks, 0, false, false, {}, w, true};
    begin_something(*out);
    w->member[(size_t)rank] = *out;
    if (++w->joined == w->member.size())
        for (ncclComm *each : w->member)
            if (each)
                each->waits = false;
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t)
{
    if (depth != 1 || from != to || type != ncclFloat32 || op != ncclSum || comm->questions > 0)
        return ncclInvalidUsage;
    calls.push_back({static_cast<float *>(to), n, comm});
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    std::lock_guard<std::mutex> held(lock);
    bool busy = comm->questions || comm->waits;
    if (busy && comm->owner != std::this_thread::get_id())
        std::abort();
    *state = busy ? ncclInProgress : comm->broken ? ncclRemoteError : ncclSuccess;
    if (comm->questions > 0)
        comm->questions--;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->finalized = true;
    comm->owner = std::this_thread::get_id();
    return ncclInProgress;
}

/* Only a finalized communicator may be destroyed. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm->finalized)
        std::abort();
    leave(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    while (comm->rank == 1 && is_planted("stuck"))
        std::this_thread::yield();
    leave(comm);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t answer)
{
    return answer == ncclRemoteError ? "remote process error" : "invalid usage";
}

const char *ncclGetLastError(ncclComm_t)
{
    return "planted";
}
}
