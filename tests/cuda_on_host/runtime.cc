/* The CUDA runtime for kernels on the host: see README.md. */
#include "cuda_runtime.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

cuda_on_host_place threadIdx, blockIdx, blockDim, gridDim;

/* ---- Launches: one at a time in the process ---- */

namespace
{
enum { MOST_THREADS = 1024, MOST_FIBERS = 8192, STACK_BYTES = 64 << 10, WARP = 32 };
enum state { READY, AT_WARP, AT_BARRIER, PAUSED, DONE };

std::recursive_mutex lock;     /* guards all below and the indices above */
ucontext_t entry[MOST_FIBERS]; /* of fibers that have not begun */
jmp_buf scheduler, fiber[MOST_FIBERS];
bool begun[MOST_FIBERS];
char *stacks;
state states[MOST_FIBERS];
bool odd[MOST_FIBERS]; /* has the thread done an odd number of warp products? */
unsigned current;
bool moved; /* has a thread done more than pause again? */
cuda_on_host_thread *run_thread;
const void *closure_of_launch;

/* A block that runs: its first fiber and its dynamic shared memory. */
struct running {
    const char *name;
    unsigned first;
    cuda_on_host_place at;
    std::vector<float4> shared;
};
running *current_block;

bool runs_backwards()
{
    static const char *order = std::getenv("CUDA_ON_HOST_ORDER");
    return order && std::strcmp(order, "down") == 0;
}

/* The i-th of n in the order of this process. */
unsigned in_order(unsigned i, unsigned n)
{
    return runs_backwards() ? n - 1 - i : i;
}

/* Switches without the system calls of swapcontext. */
void leave_fiber()
{
    if (_setjmp(fiber[current]) == 0)
        _longjmp(scheduler, 1);
}

void enter_fiber()
{
    if (_setjmp(scheduler) != 0)
        return;
    if (begun[current])
        _longjmp(fiber[current], 1);
    begun[current] = true;
    setcontext(&entry[current]);
}

/* A fiber runs one thread after the other. */
void fiber_main()
{
    for (;;) {
        run_thread(closure_of_launch);
        states[current] = DONE;
        leave_fiber();
    }
}

void make_fibers()
{
    if (stacks)
        return;
    stacks =
        static_cast<char *>(mmap(nullptr, (size_t)MOST_FIBERS * STACK_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stacks == MAP_FAILED)
        std::abort();
    for (unsigned t = 0; t < MOST_FIBERS; t++) {
        getcontext(&entry[t]);
        entry[t].uc_stack.ss_sp = stacks + (size_t)t * STACK_BYTES;
        entry[t].uc_stack.ss_size = STACK_BYTES;
        entry[t].uc_link = nullptr;
        makecontext(&entry[t], fiber_main, 0);
    }
}

/* Returns to the scheduler, which comes back when the thread may go on. */
void stop_as(state why)
{
    states[current] = why;
    leave_fiber();
}

void run_fiber(const running &b, unsigned thread)
{
    current = b.first + thread;
    threadIdx = {thread, 0, 0};
    enter_fiber();
    moved |= states[current] != PAUSED;
}

unsigned count(const running &b, unsigned from, unsigned n, state which)
{
    return (unsigned)std::count(states + b.first + from, states + b.first + from + n, which);
}

/* Makes all threads of a range ready that stopped for this reason. */
void release(const running &b, unsigned from, unsigned n, state why)
{
    std::replace(states + b.first + from, states + b.first + from + n, why, READY);
}

/* Runs the threads of a warp until each is done, pauses or stands at the block's barrier. */
void run_warp(const running &b, unsigned from, unsigned n)
{
    for (;;) {
        for (unsigned i = 0; i < n; i++) {
            unsigned thread = from + in_order(i, n);
            if (states[b.first + thread] == READY)
                run_fiber(b, thread);
        }
        unsigned together = count(b, from, n, AT_WARP);
        if (together == 0)
            return;
        if (together != n) {
            std::fprintf(stderr, "%s: %u of %u threads of a warp wait for it\n", b.name, together,
                         n);
            std::abort();
        }
        release(b, from, n, AT_WARP);
    }
}

/* Runs every unfinished thread to its next barrier, pause or end; returns whether one is left. */
bool run_to_barrier(running &b)
{
    unsigned threads = blockDim.x, warps = (threads + WARP - 1) / WARP;
    blockIdx = b.at;
    current_block = &b;
    release(b, 0, threads, PAUSED);
    for (unsigned w = 0; w < warps; w++) {
        unsigned from = in_order(w, warps) * WARP;
        run_warp(b, from, std::min(threads - from, (unsigned)WARP));
    }
    unsigned waiting = count(b, 0, threads, AT_BARRIER), done = count(b, 0, threads, DONE);
    if (waiting > 0 && done > 0) {
        std::fprintf(stderr, "%s: %u of %u threads stand at a barrier, the others are done\n",
                     b.name, waiting, threads);
        std::abort();
    }
    if (waiting == threads)
        release(b, 0, threads, AT_BARRIER);
    return done < threads;
}

/* Runs blocks at the same time: each in turn until it can only wait for another one, so that a
 * block that does not wait is far ahead of others. */
void run_blocks(std::vector<running> &blocks)
{
    size_t unfinished = blocks.size();
    while (unfinished > 0) {
        bool any = false;
        unfinished = 0;
        for (running &b : blocks) {
            bool left;
            do {
                moved = false;
                left = run_to_barrier(b);
                any |= moved;
            } while (left && moved);
            unfinished += left;
        }
        if (unfinished > 0 && !any) {
            std::fprintf(stderr, "%s: every thread waits for another one\n", blocks[0].name);
            std::abort();
        }
    }
}
} // namespace

void __syncthreads()
{
    stop_as(AT_BARRIER);
}

void __syncwarp()
{
    stop_as(AT_WARP);
}

void cuda_on_host_pause()
{
    stop_as(PAUSED);
}

void *cuda_on_host_shared()
{
    return current_block->shared.data();
}

static float as_tf32(float x)
{
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits &= ~(uint32_t)0x1fff;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/* Each thread lays its operands down, waits for its warp, and sums what its results need. A thread
 * may be one product ahead of others, so there are two places. */
void cuda_on_host_multiply(float c[4], const float a[4], const float b[2])
{
    static float of_a[2][WARP][4], of_b[2][WARP][2];
    unsigned lane = threadIdx.x % WARP;
    bool place = odd[current] = !odd[current];
    for (int i = 0; i < 4; i++)
        of_a[place][lane][i] = as_tf32(a[i]);
    for (int i = 0; i < 2; i++)
        of_b[place][lane][i] = as_tf32(b[i]);
    __syncwarp();
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 8; k++)
            c[i] += of_a[place][row % 8 * 4 + k % 4][row / 8 + k / 4 * 2] *
                    of_b[place][column * 4 + k % 4][k / 4];
    }
}

/* Each thread lays its value down, waits for its warp, and reads; it waits once more before the
 * place is used again. */
static uint32_t of_warp[WARP];

unsigned __ballot_sync(unsigned mask, int is)
{
    unsigned votes = 0;
    of_warp[threadIdx.x % WARP] = is != 0;
    __syncwarp();
    for (unsigned lane = 0; lane < WARP; lane++)
        votes |= of_warp[lane] << lane;
    __syncwarp();
    return votes & mask;
}

float __shfl_xor_sync(unsigned, float value, int lanes)
{
    float other;
    std::memcpy(&of_warp[threadIdx.x % WARP], &value, sizeof value);
    __syncwarp();
    std::memcpy(&other, &of_warp[threadIdx.x % WARP ^ (unsigned)lanes], sizeof other);
    __syncwarp();
    return other;
}

extern "C" {
unsigned cuda_on_host_together; /* launches of blocks that run together, for tests */
}

void cuda_on_host_run(const cuda_on_host_launch &l, cuda_on_host_thread *run, const void *closure)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    dim3 grid = l.grid, block = l.block;
    make_fibers();
    unsigned blocks = grid.x * grid.y, at_once = l.together ? blocks : 1;
    if (block.x < 1 || block.x > MOST_THREADS || block.y != 1 || block.z != 1 || grid.x < 1 ||
        grid.y < 1 || grid.y > 65535 || grid.z != 1 || at_once * block.x > MOST_FIBERS) {
        std::fprintf(stderr, "%s: blocks of %u x %u x %u threads in a grid of %u x %u x %u\n",
                     l.name, block.x, block.y, block.z, grid.x, grid.y, grid.z);
        std::abort();
    }
    cuda_on_host_together += l.together;
    run_thread = run;
    closure_of_launch = closure;
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block.x, 1, 1};
    std::fill_n(odd, at_once * block.x, false);
    for (unsigned first = 0; first < blocks; first += at_once) {
        std::vector<running> now;
        for (unsigned i = 0; i < at_once; i++) {
            unsigned b = in_order(first + i, blocks);
            float4 nothing;
            std::memset(&nothing, 0xff, sizeof nothing);
            now.push_back({l.name,
                           i * block.x,
                           {b % grid.x, b / grid.x, 0},
                           std::vector<float4>(l.shared_bytes / sizeof(float4), nothing)});
        }
        std::fill_n(states, at_once * block.x, READY);
        run_blocks(now);
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

/* CUDA_ON_HOST_PROCESSORS: multiprocessors; one, so that kernels use their grid-stride loops. */
static int processors()
{
    const char *text = std::getenv("CUDA_ON_HOST_PROCESSORS");
    return text ? std::atoi(text) : 1;
}

cudaError_t cudaDeviceGetAttribute(int *out, cudaDeviceAttr what, int)
{
    switch (what) {
    case cudaDevAttrComputeCapabilityMajor:
        *out = capability() / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *out = capability() % 10;
        break;
    case cudaDevAttrMultiProcessorCount:
        *out = processors();
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *out = capability() >= 90 ? 227 << 10 : 64 << 10;
        break;
    default:
        *out = 1;
    }
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
