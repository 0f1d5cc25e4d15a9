/* Reads a recipe that comes through a pipe (cli/training/piped.h). */
#include "cli/training/piped.h"

#include "base/os.h"
#include "recipe/ini.h"
#include <sys/stat.h>

void sw_piped_recipe_read(struct sw_piped_recipe *p, struct sw_job_options *job)
{
    struct stat st;
    struct sw_err ignored;
    size_t bytes;

    if (job->told || !job->recipe_path || sw_os()->stat(job->recipe_path, &st) != 0 ||
        S_ISREG(st.st_mode) ||
        sw_os_read_file(job->recipe_path, SW_INI_MAX_BYTES, &p->text, &bytes, &ignored) != SW_OK)
        return;

    p->told = (struct sw_job_told){.path = job->recipe_path, .text = p->text};
    job->told = &p->told;
}

void sw_piped_recipe_fini(struct sw_piped_recipe *p)
{
    sw_free(p->text);
    p->text = NULL;
}
