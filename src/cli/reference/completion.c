/* Writes the completion scripts for bash and zsh from the tables of verbs and options. An option is
 * completed by the kind of its argument, which kind_of_option reads off the argument's name in the
 * help; --set by the keys of the recipe on the line, and their values, as `explain` prints them.
 * cli/reference/pages.h declares the functions. */
#include "cli/reference/pages.h"

#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

/* ---- What an argument is, by the word in its place --------------------------------------------
 */

enum kind { KIND_NONE, KIND_FILE, KIND_RECIPE, KIND_RUN, KIND_SET, KIND_WORDS };

/* Options whose argument is one of a few words, and those words, for the completion of shells. */
static const struct {
    const char *option, *words;
} choices[] = {
    {"framework", "sandblaster allreduce downpour hogwild custom"},
    {"device", "auto cpu cuda sim:gpus=2"},
    {"status", "running done failed stopped crashed"},
    {"sort", "id loss accuracy speed"},
    {"by", "step time epoch"},
    {"what", "metrics steps layers traffic events checkpoints placement"},
    {"completion", "bash zsh"},
};

static const char *words_of(const struct sw_cli_option *o)
{
    for (size_t i = 0; o->arg && i < sizeof choices / sizeof *choices; i++)
        if (sw_str_eq(o->name, choices[i].option))
            return choices[i].words;
    return NULL;
}

static enum kind kind_of_option(const struct sw_cli_option *o)
{
    static const char *const files[] = {"FILE", "DIR", "PATH", ".npy", "LIST"};

    if (!o->arg)
        return KIND_NONE;
    if (words_of(o))
        return KIND_WORDS;
    if (strstr(o->arg, "SECTION.KEY=VALUE"))
        return KIND_SET;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strstr(o->arg, files[i]))
            return KIND_FILE;

    return KIND_NONE;
}

/* The kind of the arguments of a verb; runs may be files, too. */
static enum kind kind_of_words(const struct sw_verb *v)
{
    if (strstr(v->usage, "RECIPE"))
        return KIND_RECIPE;
    if (strstr(v->usage, "RUN"))
        return KIND_RUN;

    return KIND_FILE;
}

/* Functions of both scripts, with `explain` as the source: every SECTION.KEY= of a recipe, and the
 * values of a key that has only a few. */
static const char shared_functions[] = "_singa_ws_keys() {\n"
                                       "    singa-ws explain \"$1\" 2>/dev/null | awk '\n"
                                       "        /^\\[/ { sub(/^\\[/, \"\"); sub(/\\].*/, \"\"); "
                                       "gsub(/ /, \".\"); section = $0; next }\n"
                                       "        /^[a-z]/ { print section \".\" $1 \"=\" }'\n"
                                       "}\n"
                                       "_singa_ws_values() {\n"
                                       "    singa-ws explain \"$1\" \"$2\" 2>/dev/null | sed -n "
                                       "'s/^  values *\\(.*|.*\\)/\\1/p' | tr '|' "
                                       "'\\n'\n"
                                       "}\n";

/* ---- bash -------------------------------------------------------------------------------------
 */

static void bash_option(void *user, const struct sw_cli_option *o)
{
    sw_bytes_printf(user, " --%s%s", o->name, o->arg ? "=" : "");
}

/* Writes branches of a case over the option, for those whose arguments are known. */
static void bash_argument(void *user, const struct sw_cli_option *o)
{
    enum kind kind = kind_of_option(o);

    if (kind == KIND_FILE)
        sw_bytes_printf(user, "            --%s) kind=file ;;\n", o->name);
    else if (kind == KIND_SET)
        sw_bytes_printf(user, "            --%s) kind=set ;;\n", o->name);
    else if (kind == KIND_WORDS)
        sw_bytes_printf(user, "            --%s) kind=words words=\"%s\" ;;\n", o->name,
                        words_of(o));
}

static void bash_spec(struct sw_bytes *out, const char *key, const struct sw_verb *v)
{
    static const char *const kinds[] = {"none", "file", "recipe", "run"};

    sw_bytes_printf(out, "    '%s')\n        options=\"", key);

    size_t from = out->length;
    sw_cli_each_option(v, bash_option, out);
    if (out->length > from) /* the first blank */
        memmove(out->text + from, out->text + from + 1, out->length-- - from);
    sw_bytes_printf(out, "\"\n        kind=%s\n        case $option in\n", kinds[kind_of_words(v)]);
    sw_cli_each_option(v, bash_argument, out);
    sw_bytes_add(out, "            --*) kind=none ;;\n        esac\n        ;;\n");
}

static void bash_subs(struct sw_bytes *out, const struct sw_verb *v)
{
    char key[64];

    sw_bytes_printf(out, "    '%s ')\n        kind=words words=\"", v->name);
    for (int i = 0; v->subs[i]; i++)
        sw_bytes_printf(out, "%s%s", i ? " " : "", v->subs[i]->name);
    sw_bytes_add(out, "\"\n        ;;\n");

    for (int i = 0; v->subs[i]; i++) {
        snprintf(key, sizeof key, "%s %s", v->name, v->subs[i]->name);
        bash_spec(out, key, v->subs[i]);
    }
}

static const char bash_head[] =
    "_singa_ws_runs() {\n"
    "    echo @last\n"
    "    singa-ws history sql 'SELECT DISTINCT name FROM runs WHERE name IS NOT NULL\n"
    "        ORDER BY id DESC LIMIT 200' 2>/dev/null\n"
    "}\n"
    "_singa_ws() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} option= verb= sub= options= kind=none words= i\n"
    "    local key= recipe=\n"
    "    COMPREPLY=()\n"
    "    # An option's argument: '=' is a word of its own for bash.\n"
    "    if [[ $cur == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 1]} cur=\n"
    "    elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == --set ]]; then\n"
    "        option=--set\n"
    "    fi\n"
    "    # --set KEY=VALUE has a second '='.\n"
    "    [[ -n $option && $option != -* ]] && key=$option option=--set\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} == -* || ${COMP_WORDS[i]} == = ]] && continue\n"
    "        [[ ${COMP_WORDS[i]} == *.ini && -r ${COMP_WORDS[i]} ]] && recipe=${COMP_WORDS[i]}\n"
    "        [[ ${COMP_WORDS[i - 1]} == = || ${COMP_WORDS[i - 1]} == --set ]] && continue\n"
    "        if [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; "
    "elif [[ -z $sub ]]; then sub=${COMP_WORDS[i]}; fi\n"
    "    done\n";

static const char bash_tail[] =
    "    esac\n"
    "    if [[ -z $option && $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
    "        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
    "        return\n"
    "    fi\n"
    "    case $kind in\n"
    "    set)\n"
    "        [[ -n $recipe ]] || return\n"
    "        if [[ -n $key ]]; then words=$(_singa_ws_values \"$recipe\" \"$key\")\n"
    "        else words=$(_singa_ws_keys \"$recipe\"); compopt -o nospace; fi\n"
    "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "        ;;\n"
    "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
    "    file) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
    "    recipe)\n"
    "        compopt -o filenames\n"
    "        COMPREPLY=($(compgen -f -X '!*.ini' -- \"$cur\") $(compgen -d -- \"$cur\"))\n"
    "        ;;\n"
    "    run)\n"
    "        COMPREPLY=($(compgen -W \"$(_singa_ws_runs)\" -- \"$cur\") $(compgen -f -- "
    "\"$cur\"))\n"
    "        ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _singa_ws singa-ws\n";

static void write_bash(struct sw_bytes *out)
{
    sw_bytes_add(
        out, "# bash completion for singa-ws, written by `singa-ws layers --completion=bash`\n");
    sw_bytes_add(out, shared_functions);
    sw_bytes_add(out, bash_head);
    sw_bytes_add(out, "    case \"$verb $sub\" in\n    ' ')\n        kind=words words=\"");
    for (int i = 0; sw_verbs[i]; i++)
        sw_bytes_printf(out, "%s%s", i ? " " : "", sw_verbs[i]->name);
    sw_bytes_add(out, "\" options=\"--help --version\"\n        ;;\n    esac\n");

    /* A verb without sub-verbs takes any second word. */
    sw_bytes_add(out, "    case $verb in\n    ''");

    for (int i = 0; sw_verbs[i]; i++)
        if (sw_verbs[i]->subs)
            sw_bytes_printf(out, " | %s", sw_verbs[i]->name);

    sw_bytes_add(out, ") ;;\n    *) sub= ;;\n    esac\n    case \"$verb $sub\" in\n");

    for (int i = 0; sw_verbs[i]; i++) {
        char key[64];

        snprintf(key, sizeof key, "%s ", sw_verbs[i]->name);

        if (sw_verbs[i]->subs)
            bash_subs(out, sw_verbs[i]);
        else
            bash_spec(out, key, sw_verbs[i]);
    }

    sw_bytes_add(out, bash_tail);
}

/* ---- zsh --------------------------------------------------------------------------------------
 */

/* Help within single quotes and brackets. */
static void zsh_text(struct sw_bytes *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            sw_bytes_add(out, "'\\''");
        else if (strchr("[]:\\", *text))
            sw_bytes_printf(out, "\\%c", *text);
        else
            sw_bytes_append(out, text, 1);
}

static void zsh_option(void *user, const struct sw_cli_option *o)
{
    static const char *const actions[] = {" ", "_files", "_files", "_singa_ws_runs",
                                          "_singa_ws_set"};
    struct sw_bytes *out = user;
    bool again = o->type == SW_CLI_LIST || o->type == SW_CLI_COUNT;

    sw_bytes_printf(out, "            '%s--%s%s[", again ? "*" : "", o->name, o->arg ? "=" : "");
    zsh_text(out, o->help);
    sw_bytes_add(out, "]");

    if (o->arg) {
        sw_bytes_add(out, ":");
        zsh_text(out, o->arg);

        if (kind_of_option(o) == KIND_WORDS)
            sw_bytes_printf(out, ":(%s)", words_of(o));
        else
            sw_bytes_printf(out, ":%s", actions[kind_of_option(o)]);
    }

    sw_bytes_add(out, "' \\\n");
}

static void zsh_spec(struct sw_bytes *out, const char *name, const struct sw_verb *v)
{
    static const char *const words[] = {"", "'*:file:_files'", "'*:recipe:_files -g \"*.ini\"'",
                                        "'*:run:{ _singa_ws_runs; _files }'"};

    sw_bytes_printf(out, "    %s)\n        _arguments \\\n", name);
    sw_cli_each_option(v, zsh_option, out);
    sw_bytes_printf(out, "            %s\n        ;;\n", words[kind_of_words(v)]);
}

static void zsh_list(struct sw_bytes *out, const struct sw_verb *const *verbs)
{
    for (int i = 0; verbs[i]; i++) {
        sw_bytes_printf(out, "        '%s:", verbs[i]->name);
        zsh_text(out, verbs[i]->help);
        sw_bytes_add(out, "'\n");
    }
}

/* Writes a function for a verb with sub-verbs, or for the program with its verbs. */
static void zsh_function(struct sw_bytes *out, const char *name, const char *what,
                         const struct sw_verb *const *verbs)
{
    sw_bytes_printf(out,
                    "_singa_ws%s() {\n    local curcontext=$curcontext state line\n"
                    "    local -a verbs=(\n",
                    name);
    zsh_list(out, verbs);
    sw_bytes_printf(out,
                    "    )\n    _arguments -C '1:%s:->verb' '*::argument:->rest'\n"
                    "    [[ $state == verb ]] && { _describe %s verbs; return }\n"
                    "    case $words[1] in\n",
                    what, what);

    for (int i = 0; verbs[i]; i++)
        if (verbs[i]->subs)
            sw_bytes_printf(out, "    %s) _singa_ws_%s ;;\n", verbs[i]->name, verbs[i]->name);
        else
            zsh_spec(out, verbs[i]->name, verbs[i]);

    sw_bytes_add(out, "    esac\n}\n");
}

static void write_zsh(struct sw_bytes *out)
{
    char name[64];

    sw_bytes_add(
        out, "#compdef singa-ws\n"
             "# zsh completion for singa-ws, written by `singa-ws layers --completion=zsh`\n"
             "_singa_ws_runs() {\n"
             "    compadd -- @last ${(f)\"$(singa-ws history sql 'SELECT DISTINCT name FROM runs "
             "WHERE name IS NOT NULL ORDER BY id DESC LIMIT 200' 2>/dev/null)\"}\n"
             "}\n");
    sw_bytes_add(out, shared_functions);
    sw_bytes_add(out, "_singa_ws_set() {\n"
                      "    local -a recipes=(${(M)words:#*.ini})\n"
                      "    local key=${PREFIX%%=*}\n"
                      "    [[ -r $recipes[1] ]] || return 1\n"
                      "    if compset -P '*='; then\n"
                      "        compadd -- ${(f)\"$(_singa_ws_values $recipes[1] $key)\"}\n"
                      "    else\n"
                      "        compadd -S '' -- ${(f)\"$(_singa_ws_keys $recipes[1])\"}\n"
                      "    fi\n"
                      "}\n");

    for (int i = 0; sw_verbs[i]; i++)
        if (sw_verbs[i]->subs) {
            snprintf(name, sizeof name, "_%s", sw_verbs[i]->name);
            zsh_function(out, name, "sub-verb", sw_verbs[i]->subs);
        }

    zsh_function(out, "", "verb", sw_verbs);
    sw_bytes_add(out, "_singa_ws \"$@\"\n");
}

/* ---- All --------------------------------------------------------------------------------------
 */

const char *const sw_completion_shells[] = {"bash", "zsh", NULL};

bool sw_completion(const char *shell, struct sw_bytes *out)
{
    if (sw_str_eq(shell, "bash"))
        write_bash(out);
    else if (sw_str_eq(shell, "zsh"))
        write_zsh(out);
    else
        return false;

    return true;
}
