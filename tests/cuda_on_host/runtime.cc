/* The CUDA runtime for kernels on the host: see README.md. */
#include "cuda_runtime.h"

#include <algorithm>
#include <cstdint>
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

std::recursive_mutex lock; /* guards all below and the indices above */
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

/* Runs every unfinished thread to its next barrier or its end; returns how many have reached the
 * barrier. */
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

/* ---- Devices, and sticky last errors ---- */

static thread_local int current_gpu;
static thread_local cudaError_t last_error = cudaSuccess;
static thread_local bool in_host_function;

cudaError_t cuda_on_host_fail(cudaError_t e)
{
    if (e != cudaSuccess)
        last_error = e;
    return e;
}

/* ---- Streams, events, graphs. Work on a captured stream is recorded instead of run; a stream that
 * waits for an event of the capture joins it ---- */

struct CUgraph_st {
    uint64_t number;
    std::vector<cudaStream_t> streams; /* the first is the one that was captured */
    std::vector<std::function<void()>> list;
    cudaError_t wrong = cudaSuccess;
};
struct CUgraphExec_st {
    int gpu;
    std::vector<std::function<void()>> list;
};

/* A position in a graph: how many operations of each stream come before it. */
typedef std::map<cudaStream_t, uint64_t> cover;

struct CUstream_st {
    int gpu;
    int priority;
    cudaGraph_t graph = nullptr; /* the graph that captures it */
    uint64_t queued = 0;
    cover behind;
};
struct CUevent_st {
    int gpu;
    uint64_t graph = 0; /* number of the capture it was recorded in; 0: none */
    cover behind;
};

static thread_local cudaGraph_t capture;         /* one at a time per thread */
static std::map<uint64_t, cudaGraph_t> captures; /* current captures; accessed with the lock */

static void spoil(cudaGraph_t g)
{
    g->wrong = cudaErrorStreamCaptureInvalidated;
}

/* A call that is not allowed during a capture invalidates the capture of the thread, as in CUDA. */
static cudaError_t refuse_in_capture()
{
    if (!capture)
        return cudaSuccess;
    spoil(capture);
    return cuda_on_host_fail(cudaErrorStreamCaptureUnsupported);
}

static cudaError_t refuse_in_host_function()
{
    return in_host_function ? cuda_on_host_fail(cudaErrorNotPermitted) : cudaSuccess;
}

static cudaError_t queue(cudaStream_t s, const std::function<void()> &what)
{
    cudaGraph_t g;
    if (refuse_in_host_function() != cudaSuccess)
        return cudaErrorNotPermitted;
    {
        std::lock_guard<std::recursive_mutex> guard(lock);
        s->queued++;
        g = s->graph;
        if (g)
            g->list.push_back(what);
    }
    if (!g)
        what();
    return cudaSuccess;
}

/* Refuses the default stream, which synchronizes with others. */
cudaError_t cuda_on_host_do(cudaStream_t s, const std::function<void()> &what)
{
    return s && s->gpu == current_gpu ? queue(s, what)
                                      : cuda_on_host_fail(cudaErrorInvalidResourceHandle);
}

/* ---- Memory: allocations end at an inaccessible page ---- */

namespace
{
enum { ALIGNMENT = 16 };

std::map<void *, std::pair<void *, size_t>> blocks; /* allocations: pages and bytes */

size_t page_bytes()
{
    return (size_t)sysconf(_SC_PAGESIZE);
}
} // namespace

static cudaError_t take(void **out, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (refuse_in_capture() != cudaSuccess || refuse_in_host_function() != cudaSuccess)
        return last_error;
    size_t page = page_bytes(), used = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t whole = (used + page - 1) / page * page;
    if (bytes > (size_t)8 << 30)
        return cuda_on_host_fail(cudaErrorMemoryAllocation);
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
    if (refuse_in_capture() != cudaSuccess || refuse_in_host_function() != cudaSuccess)
        return last_error;
    if (found == blocks.end())
        return cuda_on_host_fail(cudaErrorInvalidValue);
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
    if (refuse_in_capture() != cudaSuccess)
        return last_error;
    std::memset(p, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    return cuda_on_host_do(s, [=] { std::memset(p, value, bytes); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t s)
{
    return queue(s, [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t s)
{
    return queue(s, [=] { std::memmove(to, from, bytes); });
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind, cudaStream_t s)
{
    return queue(s, [=] {
        for (size_t r = 0; r < rows; r++)
            std::memmove(static_cast<char *>(to) + r * to_pitch,
                         static_cast<const char *>(from) + r * from_pitch, width);
    });
}

/* ---- Streams and events: everything has happened when its call returns ---- */

/* As in CUDA, a lower number has higher priority. */
enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = LEAST_PRIORITY;
    *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}

/* Refuses streams that synchronize with the default stream. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    if (flags != cudaStreamNonBlocking || priority > LEAST_PRIORITY || priority < GREATEST_PRIORITY)
        return cuda_on_host_fail(cudaErrorInvalidValue);
    *out = new CUstream_st{current_gpu, priority, nullptr, 0, {}};
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    delete s;
    return cudaSuccess;
}

/* A captured stream cannot be queried. */
static cudaError_t ask(cudaStream_t s)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (refuse_in_capture() != cudaSuccess || refuse_in_host_function() != cudaSuccess)
        return last_error;
    if (s == cudaStreamLegacy || !s->graph)
        return cudaSuccess;
    spoil(s->graph);
    return cuda_on_host_fail(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return ask(s);
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    return ask(s);
}

static void join(cover *to, const cover &more)
{
    for (const auto &place : more)
        (*to)[place.first] = std::max((*to)[place.first], place.second);
}

/* Within a capture a stream can wait only for events of that capture. */
static cudaError_t wait_in_graph(cudaStream_t s, cudaEvent_t e)
{
    auto of_event = captures.find(e->graph);
    if (e->graph && of_event == captures.end())
        return cudaErrorCapturedEvent; /* the event belongs to a capture that has ended */
    if (s->graph && (!e->graph || of_event->second != s->graph)) {
        spoil(s->graph);
        return cudaErrorStreamCaptureIsolation;
    }
    if (!s->graph && e->graph) {
        s->graph = of_event->second;
        s->graph->streams.push_back(s);
        s->behind.clear();
    }
    join(&s->behind, e->behind);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (refuse_in_host_function() != cudaSuccess)
        return cudaErrorNotPermitted;
    return cuda_on_host_fail(wait_in_graph(s, e));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *user)
{
    return queue(s, [=] {
        in_host_function = true;
        fn(user);
        in_host_function = false;
    });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode)
{
    static uint64_t number;
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (capture || s->graph || mode != cudaStreamCaptureModeThreadLocal)
        return cuda_on_host_fail(cudaErrorIllegalState);
    capture = s->graph = new CUgraph_st;
    capture->number = ++number;
    capture->streams.push_back(s);
    captures[number] = capture;
    s->behind.clear();
    return cudaSuccess;
}

/* Whether the captured stream has waited for all work of joined streams. */
static bool has_joined(cudaGraph_t g)
{
    cover &behind = g->streams[0]->behind;
    for (size_t i = 1; i < g->streams.size(); i++)
        if (behind[g->streams[i]] != g->streams[i]->queued)
            return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    cudaGraph_t ended = capture;
    *out = nullptr;
    if (!ended || s->graph != ended || ended->streams[0] != s)
        return cuda_on_host_fail(cudaErrorIllegalState);
    cudaError_t answer = ended->wrong == cudaSuccess && !has_joined(ended)
                             ? cudaErrorStreamCaptureUnjoined
                             : ended->wrong;
    capture = nullptr;
    captures.erase(ended->number);
    for (cudaStream_t one : ended->streams)
        one->graph = nullptr;
    if (answer == cudaSuccess)
        *out = ended;
    else
        delete ended;
    return cuda_on_host_fail(answer);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long)
{
    *out = new CUgraphExec_st{current_gpu, g->list};
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

cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s)
{
    if (g->gpu != s->gpu)
        return cuda_on_host_fail(cudaErrorInvalidResourceHandle);
    return cuda_on_host_do(s, [=] {
        for (const std::function<void()> &what : g->list)
            what();
    });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    delete g;
    return cudaSuccess;
}

/* Refuses events with timing, which make streams slower. */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    if (!(flags & cudaEventDisableTiming))
        return cuda_on_host_fail(cudaErrorInvalidValue);
    *out = new CUevent_st{current_gpu, 0, {}};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (!s || e->gpu != s->gpu)
        return cuda_on_host_fail(cudaErrorInvalidResourceHandle);
    e->graph = s->graph ? s->graph->number : 0;
    e->behind.clear();
    if (s->graph) {
        e->behind = s->behind;
        e->behind[s] = s->queued;
    }
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (refuse_in_capture() != cudaSuccess || refuse_in_host_function() != cudaSuccess)
        return last_error;
    return e->graph ? cuda_on_host_fail(cudaErrorCapturedEvent) : cudaSuccess;
}

/* ---- Two devices, for tests of several ---- */

cudaError_t cudaGetDeviceCount(int *out)
{
    *out = 2;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int gpu)
{
    if (gpu < 0 || gpu >= 2)
        return cuda_on_host_fail(cudaErrorInvalidDevice);
    current_gpu = gpu;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *gpu)
{
    *gpu = current_gpu;
    return cudaSuccess;
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

/* CUDA_ON_HOST_CAPABILITY=75 plays a Turing GPU. */
static int capability()
{
    const char *text = std::getenv("CUDA_ON_HOST_CAPABILITY");
    return text ? std::atoi(text) : 90;
}

/* Also under the versioned name of newer headers. */
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int gpu)
{
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "kernels on the host");
    p->totalGlobalMem = (size_t)8 << 30;
    p->major = capability() / 10;
    p->minor = capability() % 10;
    p->pciDomainID = 0xffff;
    p->pciBusID = gpu + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, cudaDeviceAttr what, int)
{
    *out = what == cudaDevAttrComputeCapabilityMajor   ? capability() / 10
           : what == cudaDevAttrComputeCapabilityMinor ? capability() % 10
                                                       : 1; /* multiprocessors: few, so that kernels
                                                               use their grid-stride loops */
    return cudaSuccess;
}

cudaError_t cudaGetLastError()
{
    cudaError_t e = last_error;
    last_error = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError()
{
    return last_error;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}

const char *cudaGetErrorName(cudaError_t e)
{
    switch (e) {
    case cudaErrorInvalidResourceHandle:
        return "cudaErrorInvalidResourceHandle: a stream or event of another device";
    case cudaErrorStreamCaptureIsolation:
        return "cudaErrorStreamCaptureIsolation: an event of before the capture";
    case cudaErrorStreamCaptureUnjoined:
        return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureUnsupported:
        return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorCapturedEvent:
        return "cudaErrorCapturedEvent";
    case cudaErrorNotPermitted:
        return "cudaErrorNotPermitted: in a host function";
    default:
        return "cudaError";
    }
}
}
