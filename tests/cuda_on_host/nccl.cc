/* NCCL for devices on the host: see README.md. The operations of a group run when it ends. As in
 * NCCL's non-blocking mode, communicators stay in progress for some queries; NCCL_ON_HOST=hang in
 * the environment makes the second one hang, =late makes it join late, =broken makes it fail, and
 * =stuck makes its abort hang until that is taken away. While
 * one is in progress only the thread that began the operation may query it, since that also ends
 * groups. */
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct ncclComm {
    int rank, ranks;
    int questions; /* number of queries still answered with ncclInProgress; -1: all */
    bool broken, finalized;
    std::thread::id owner; /* of the operation in progress */
};

namespace
{
struct call {
    float *x;
    size_t n;
    ncclComm *comm;
};
std::vector<call> calls;
int depth;

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

/* The k-th calls of all ranks belong together. */
ncclResult_t run_group()
{
    std::vector<std::vector<call>> of_rank;
    for (const call &c : calls) {
        if (of_rank.empty())
            of_rank.resize((size_t)c.comm->ranks);
        of_rank[(size_t)c.comm->rank].push_back(c);
    }
    calls.clear();
    for (size_t k = 0; !of_rank.empty() && k < of_rank[0].size(); k++) {
        std::vector<float> sum(of_rank[0][k].n);
        for (const auto &rank : of_rank) {
            if (rank.size() != of_rank[0].size() || rank[k].n != sum.size())
                return ncclInvalidUsage;
            for (size_t i = 0; i < sum.size(); i++)
                sum[i] += rank[k].x[i];
        }
        for (const auto &rank : of_rank) {
            std::memcpy(rank[k].x, sum.data(), sum.size() * sizeof(float));
            begin_something(rank[k].comm);
        }
    }
    return ncclInProgress;
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
    std::memset(id, 0, sizeof *id);
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

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId, int rank,
                                    ncclConfig_t *config)
{
    if (depth != 1 || config->blocking != 0 || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    *out = new ncclComm{rank, ranks, 0, false, false, {}};
    begin_something(*out);
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
    if (comm->questions && comm->owner != std::this_thread::get_id())
        std::abort();
    *state = comm->questions ? ncclInProgress : comm->broken ? ncclRemoteError : ncclSuccess;
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
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    while (comm->rank == 1 && is_planted("stuck"))
        std::this_thread::yield();
    delete comm;
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
