/* Writes the elements of a reference page (headings, paragraphs, items) as roff or as Markdown,
 * with every text escaped for that format. The contract is in cli/reference/page.h. */
#include "cli/reference/page.h"

#include <string.h>

/* Appends text with everything escaped that roff or Markdown would interpret. */
static void add(struct sw_page *p, const char *text)
{
    bool man = p->form == SW_PAGE_MAN, line_begins = true;

    for (const char *c = text; *c; c++) {
        if (man && line_begins && (*c == '.' || *c == '\''))
            sw_bytes_add(p->out, "\\&");

        if (man && *c == '\\')
            sw_bytes_add(p->out, "\\e");
        else if (man && *c == '-')
            sw_bytes_add(p->out, "\\-");
        else if (!man && strchr("*_<>|`\\", *c))
            sw_bytes_printf(p->out, "\\%c", *c);
        else
            sw_bytes_append(p->out, c, 1);

        line_begins = *c == '\n';
    }
}

static void line(struct sw_page *p, const char *before, const char *text, const char *after)
{
    sw_bytes_add(p->out, before);
    add(p, text);
    sw_bytes_add(p->out, after);
}

void sw_page_begin(struct sw_page *p, enum sw_page_form form, struct sw_bytes *out,
                   const char *name, int section, const char *what)
{
    *p = (struct sw_page){.form = form, .out = out};
    if (form == SW_PAGE_MARKDOWN) {
        sw_bytes_printf(out, "# %s(%d)\n\n", name, section);
        line(p, "", what, "\n");
        return;
    }

    sw_bytes_printf(out, ".TH %s %d \"\" \"singa-ws %s\"\n.SH NAME\n", name, section, SW_VERSION);
    line(p, "", name, " \\- ");
    line(p, "", what, "\n");
}

void sw_page_heading(struct sw_page *p, const char *text)
{
    line(p, p->form == SW_PAGE_MAN ? ".SH " : "\n## ", text, "\n");
}

void sw_page_subheading(struct sw_page *p, const char *text)
{
    line(p, p->form == SW_PAGE_MAN ? ".SS " : "\n### ", text, "\n");
}

void sw_page_text(struct sw_page *p, const char *text)
{
    struct sw_bytes one = {0};

    sw_bytes_add(p->out, p->form == SW_PAGE_MAN ? ".PP\n" : "\n");

    for (const char *c = text; *c; c++) {
        if (c[0] == '\n' && c[1] == '\n') {
            line(p, "", sw_bytes_text(&one), p->form == SW_PAGE_MAN ? "\n.PP\n" : "\n\n");
            sw_bytes_clear(&one);
            c++;
        } else {
            sw_bytes_append(&one, *c == '\n' ? " " : c, 1);
        }
    }

    line(p, "", sw_bytes_text(&one), "\n");
    p->out->failed |= one.failed;
    sw_bytes_fini(&one);
}

void sw_page_lines(struct sw_page *p, const char *text)
{
    if (p->form == SW_PAGE_MAN) {
        line(p, ".PP\n.nf\n", text, "\n.fi\n");
        return;
    }

    sw_bytes_printf(p->out, "\n```\n%s\n```\n", text);
}

void sw_page_item(struct sw_page *p, const char *word, const char *aside, const char *text)
{
    bool man = p->form == SW_PAGE_MAN;

    line(p, man ? ".TP\n\\fB" : "\n- **", word, man ? "\\fR" : "**");
    if (aside && *aside)
        line(p, man ? " \\fI" : " *", aside, man ? "\\fR" : "*");
    line(p, man ? "\n" : ": ", text, "\n");
}

void sw_page_end_items(struct sw_page *p)
{
    sw_bytes_add(p->out, p->form == SW_PAGE_MAN ? ".PP\n" : "\n");
}
