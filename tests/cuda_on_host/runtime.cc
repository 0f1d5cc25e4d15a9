/* The CUDA runtime for kernels on the host: see README.md. */
#include "cuda_runtime.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

cuda_on_host_place threadIdx, blockIdx, blockDim, gridDim;

/* ---- Launches: one at a time in the process ---- */

namespace
{
enum { MOST_THREADS = 1024, STACK_BYTES = 64 << 10 };
enum state { READY, AT_BARRIER, DONE };

std::recursive_mutex lock; /* guards all below, and the indices above */
ucontext_t scheduler, fiber[MOST_THREADS];
char *stacks;
state states[MOST_THREADS];
unsigned current;
cuda_on_host_thread *run_thread;
const void *closure_of_launch;

bool runs_backwards()
{
    static const char *order = std::getenv("CUDA_ON_HOST_ORDER");
    return order && std::strcmp(order, "down") == 0;
}

/* A fiber runs one thread after the other. */
void fiber_main()
{
    for (;;) {
        run_thread(closure_of_launch);
        states[current] = DONE;
        swapcontext(&fiber[current], &scheduler);
    }
}

void make_fibers()
{
    if (stacks)
        return;
    stacks = static_cast<char *>(mmap(nullptr, (size_t)MOST_THREADS * STACK_BYTES,
                                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (stacks == MAP_FAILED)
        std::abort();
    for (unsigned t = 0; t < MOST_THREADS; t++) {
        getcontext(&fiber[t]);
        fiber[t].uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
        fiber[t].uc_stack.ss_size = STACK_BYTES;
        fiber[t].uc_link = nullptr;
        makecontext(&fiber[t], fiber_main, 0);
    }
}

/* Every thread that is not done runs to its next barrier, or to its end; returns how many stand at
 * the barrier. */
unsigned run_to_barrier(unsigned threads)
{
    unsigned waiting = 0;
    for (unsigned i = 0; i < threads; i++) {
        current = runs_backwards() ? threads - 1 - i : i;
        if (states[current] == DONE)
            continue;
        threadIdx = {current, 0, 0};
        swapcontext(&scheduler, &fiber[current]);
        waiting += states[current] == AT_BARRIER;
    }
    return waiting;
}

void run_block(unsigned threads, const char *name)
{
    for (unsigned t = 0; t < threads; t++)
        states[t] = READY;
    unsigned waiting;
    while ((waiting = run_to_barrier(threads)) > 0)
        if (waiting != threads) {
            std::fprintf(stderr, "%s: %u of %u threads stand at a barrier, the others are done\n",
                         name, waiting, threads);
            std::abort();
        }
}
} // namespace

void __syncthreads()
{
    states[current] = AT_BARRIER;
    unsigned me = current;
    swapcontext(&fiber[me], &scheduler);
    states[me] = READY;
}

void cuda_on_host_run(dim3 grid, dim3 block, const char *name, cuda_on_host_thread *run,
                      const void *closure)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    make_fibers();
    if (block.x < 1 || block.x > MOST_THREADS || block.y != 1 || block.z != 1 || grid.x < 1 ||
        grid.y < 1 || grid.y > 65535 || grid.z != 1) {
        std::fprintf(stderr, "%s: blocks of %u x %u x %u threads in a grid of %u x %u x %u\n", name,
                     block.x, block.y, block.z, grid.x, grid.y, grid.z);
        std::abort();
    }
    run_thread = run;
    closure_of_launch = closure;
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block.x, 1, 1};
    unsigned blocks = grid.x * grid.y;
    for (unsigned i = 0; i < blocks; i++) {
        unsigned b = runs_backwards() ? blocks - 1 - i : i;
        blockIdx = {b % grid.x, b / grid.x, 0};
        run_block(block.x, name);
    }
}

/* ---- Graphs: what the capturing thread asks for is kept instead of done ---- */

struct CUgraph_st {
    std::vector<std::function<void()>> list;
    cudaError_t wrong = cudaSuccess;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> list;
};

static thread_local cudaGraph_t capture; /* one at a time per thread */

void cuda_on_host_do(const std::function<void()> &what)
{
    if (capture)
        capture->list.push_back(what);
    else
        what();
}

/* What a capture does not allow spoils it, as CUDA has it. */
static cudaError_t refuse_in_capture()
{
    if (!capture)
        return cudaSuccess;
    capture->wrong = cudaErrorStreamCaptureInvalidated;
    return cudaErrorStreamCaptureUnsupported;
}

/* ---- Memory: blocks end at a page that cannot be touched ---- */

namespace
{
enum { ALIGNMENT = 16 };

std::map<void *, std::pair<void *, size_t>> blocks; /* what was handed out: pages and bytes of it */

size_t page_bytes()
{
    return (size_t)sysconf(_SC_PAGESIZE);
}
} // namespace

static cudaError_t take(void **out, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (refuse_in_capture() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    size_t page = page_bytes(), used = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t whole = (used + page - 1) / page * page;
    if (bytes > (size_t)8 << 30)
        return cudaErrorMemoryAllocation;
    void *pages =
        mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    mprotect(static_cast<char *>(pages) + whole, page, PROT_NONE);
    *out = static_cast<char *>(pages) + whole - used;
    std::memset(*out, 0xff, used);
    blocks[*out] = {pages, whole + page};
    return cudaSuccess;
}

static cudaError_t give_back(void *p)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (!p)
        return cudaSuccess;
    auto found = blocks.find(p);
    if (found == blocks.end())
        return cudaErrorInvalidValue;
    munmap(found->second.first, found->second.second);
    blocks.erase(found);
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return bytes ? take(out, bytes) : (*out = nullptr, cudaSuccess);
}

cudaError_t cudaFree(void *p)
{
    return give_back(p);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return take(out, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
    return give_back(p);
}

cudaError_t cudaHostRegister(void *, size_t, unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *)
{
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned)
{
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    *left = *all = (size_t)8 << 30;
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    std::memset(p, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t)
{
    cuda_on_host_do([=] { std::memset(p, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t)
{
    cuda_on_host_do([=] { std::memmove(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t)
{
    cuda_on_host_do([=] { std::memmove(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind, cudaStream_t)
{
    cuda_on_host_do([=] {
        for (size_t r = 0; r < rows; r++)
            std::memmove(static_cast<char *>(to) + r * to_pitch,
                         static_cast<const char *>(from) + r * from_pitch, width);
    });
    return cudaSuccess;
}

/* ---- Streams and events: everything has happened when its call returns ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = reinterpret_cast<cudaStream_t>(new char);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    delete reinterpret_cast<char *>(s);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t)
{
    return refuse_in_capture();
}

cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t fn, void *user)
{
    cuda_on_host_do([=] { fn(user); });
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode)
{
    if (capture)
        return cudaErrorIllegalState;
    capture = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *out)
{
    cudaGraph_t ended = capture;
    capture = nullptr;
    *out = nullptr;
    if (!ended)
        return cudaErrorIllegalState;
    cudaError_t answer = ended->wrong;
    if (answer == cudaSuccess)
        *out = ended;
    else
        delete ended;
    return answer;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long)
{
    *out = new CUgraphExec_st{g->list};
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t)
{
    for (const std::function<void()> &what : g->list)
        what();
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    delete g;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = reinterpret_cast<cudaEvent_t>(new char);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete reinterpret_cast<char *>(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t)
{
    return cudaSuccess;
}

/* ---- The device: two, so that tests of several have some ---- */

cudaError_t cudaGetDeviceCount(int *out)
{
    *out = 2;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu)
{
    return gpu >= 0 && gpu < 2 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
    return cudaSuccess;
}

/* Also under the name that headers give it by version. */
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int gpu)
{
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "kernels on the host");
    p->totalGlobalMem = (size_t)8 << 30;
    p->major = 9;
    p->pciDomainID = 0xffff;
    p->pciBusID = gpu + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, cudaDeviceAttr, int)
{
    *out = 1; /* multiprocessors: few blocks, so that loops go on with a stride */
    return cudaSuccess;
}

cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError()
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}

const char *cudaGetErrorName(cudaError_t)
{
    return "cudaError";
}
}
