/* The output of the command line: exit codes, messages on stderr, text on stdout, and what stdout
 * can show (width, color, terminal). Everything that is printed goes through base/text.h, except by
 * the _raw functions, so that foreign text cannot control the terminal. Main thread; the contract
 * is in cli/cli.h. */
#include "cli/cli.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/text.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 80 };

/* ---- Exit codes -------------------------------------------------------------------------------
 */

const struct sw_exit_text sw_exit_texts[] = {
    {SW_EXIT_DONE, "done"},
    {SW_EXIT_FAILED, "failed: a training or I/O error; for weights diff: the files differ"},
    {SW_EXIT_USAGE, "usage or recipe error, or another process owns the run"},
    {SW_EXIT_MISSING, "a file, run, device, host or memory is missing, or a file is damaged"},
    {SW_EXIT_DIVERGED, "diverged: a loss, gradient or parameter is not finite"},
    {SW_EXIT_STOPPED, "stopped by request, with a checkpoint to resume from"},
    {SW_EXIT_SIGNAL + SIGINT, "stopped by SIGINT, without a checkpoint to resume from"},
    {SW_EXIT_SIGNAL + SIGTERM, "stopped by SIGTERM, without a checkpoint to resume from"},
    {0, NULL},
};

int sw_cli_exit_code(int err_code)
{
    switch (err_code) {
    case SW_OK:
        return SW_EXIT_DONE;
    case SW_ERR_INVALID:
        return SW_EXIT_USAGE;
    case SW_ERR_NOTFOUND:
    case SW_ERR_NOMEM:
    case SW_ERR_UNSUPPORTED:
    case SW_ERR_FORMAT:
        return SW_EXIT_MISSING;
    case SW_ERR_DIVERGED:
        return SW_EXIT_DIVERGED;
    case SW_ERR_CANCELLED:
        return sw_stop_signal() ? SW_EXIT_SIGNAL + sw_stop_signal() : SW_EXIT_STOPPED;
    default:
        return SW_EXIT_FAILED;
    }
}

/* ---- Messages ---------------------------------------------------------------------------------
 */

static void message(const char *verb, const char *fmt, va_list ap)
{
    struct sw_bytes line = {0};

    sw_bytes_printf(&line, "singa-ws%s%s: ", verb ? " " : "", verb ? verb : "");
    sw_bytes_vprintf(&line, fmt, ap);
    sw_bytes_add(&line, "\n");

    if (line.failed)
        fputs("singa-ws: out of memory\n", stderr);
    else
        sw_cli_lines(line.text);

    sw_bytes_fini(&line);
}

void sw_cli_lines(const char *text)
{
    struct sw_bytes shown = {0};
    sw_text_add_lines(&shown, text, strlen(text));
    sw_cli_lines_raw(shown.failed ? "singa-ws: out of memory\n" : sw_bytes_text(&shown));
    sw_bytes_fini(&shown);
}

void sw_cli_lines_raw(const char *text)
{
    fputs(text, stderr);
}

void sw_cli_message(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message(NULL, fmt, ap);
    va_end(ap);
}

int sw_cli_fail(int err_code, const struct sw_err *err)
{
    sw_cli_message("%s", err->text);
    return sw_cli_exit_code(err_code);
}

int sw_cli_usage(const char *verb, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    message(verb, fmt, ap);
    va_end(ap);
    fprintf(stderr, "Try 'singa-ws%s%s --help'.\n", verb ? " " : "", verb ? verb : "");

    return SW_EXIT_USAGE;
}

/* ---- Standard output --------------------------------------------------------------------------
 */

int sw_cli_write(const char *text, size_t bytes)
{
    struct sw_bytes shown = {0};

    sw_text_add_lines(&shown, text, bytes);

    int problem = shown.failed ? ENOMEM : sw_cli_write_raw(shown.text, shown.length);
    sw_bytes_fini(&shown);
    return problem;
}

int sw_cli_write_raw(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = sw_os()->write(STDOUT_FILENO, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;

        text += n;
        bytes -= (size_t)n;
    }

    return 0;
}

static int print(const struct sw_bytes *buf, int (*write)(const char *text, size_t bytes))
{
    if (buf->failed) {
        sw_cli_message("out of memory");
        return SW_EXIT_MISSING;
    }

    int problem = write(sw_bytes_text(buf), buf->length);
    if (problem == 0 || problem == EPIPE)
        return SW_EXIT_DONE;

    sw_cli_message("standard output: %s", strerror(problem));
    return SW_EXIT_FAILED;
}

int sw_cli_print(const struct sw_bytes *buf)
{
    return print(buf, sw_cli_write);
}

int sw_cli_print_raw(const struct sw_bytes *buf)
{
    return print(buf, sw_cli_write_raw);
}

void sw_cli_json_begin(struct sw_json_writer *w, struct sw_bytes *out)
{
    sw_json_begin(w, out);
    sw_json_open_object(w, NULL);
}

void sw_cli_json_end(struct sw_json_writer *w)
{
    sw_json_close_object(w);
    sw_bytes_add(w->out, "\n");
}

bool sw_cli_stdout_tty(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

int sw_cli_stdout_width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return DEFAULT_WIDTH;
    return size.ws_col;
}

bool sw_cli_stdout_smart(void)
{
    const char *term = getenv("TERM");
    return sw_cli_stdout_tty() && term && *term && !sw_str_eq(term, "dumb");
}

bool sw_cli_colour(void)
{
    const char *no = getenv("NO_COLOR");
    return sw_cli_stdout_smart() && !(no && *no);
}

/* ---- The version -------------------------------------------------------------------------------
 */

void sw_cli_version(void)
{
    puts("singa-ws " SW_VERSION "\n"
         "License Apache-2.0: <https://www.apache.org/licenses/LICENSE-2.0>\n"
         "There is NO WARRANTY, to the extent permitted by law.");
}

void sw_cli_quote(struct sw_bytes *out, const char *word)
{
    sw_bytes_add(out, "'");

    for (; *word; word++)
        if (*word == '\'')
            sw_bytes_add(out, "'\\''");
        else
            sw_bytes_append(out, word, 1);

    sw_bytes_add(out, "'");
}
