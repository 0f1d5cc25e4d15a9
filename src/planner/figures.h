/* Figures of a machine that the user gives: options such as --net 1Gbit, or a list such as "gpus=4,
 * net=10Gbit". Each is within limits and says who gave it. One owner. */
#pragma once

#include "planner/machine_model.h"

enum { SW_GIVEN_FIGURES = 10 };

/* Where a list gives a figure, for messages. Line 0: an option gives it. */
struct sw_given_place {
    int line, column;
};

/* Value 0: not given. */
struct sw_given_figures {
    struct sw_figure flops_per_s;        /* of a GPU; without GPUs, of all cores of a host together;
                                            written in Gflop/s */
    struct sw_figure memory_bytes_per_s; /* of a GPU's memory; without GPUs, of a host's */
    struct sw_figure gpu_memory_bytes;
    struct sw_figure pcie_bytes_per_s; /* of each PCIe link, in each direction */
    struct sw_figure net_bytes_per_s;  /* of each host, in each direction */
    struct sw_figure net_latency_s;    /* of a message */
    struct sw_figure hosts;
    struct sw_figure gpus; /* of all hosts together */
    struct sw_figure gpus_per_host;
    struct sw_figure server_hosts;                 /* more hosts, with servers alone */
    struct sw_given_place place[SW_GIVEN_FIGURES]; /* by row, as sw_given_key */
};

/* The keys in the order of the reference page, and how a value of each is written, for messages and
 * help ("a rate from 1kB/s to ..."); NULL: there is no such row. */
const char *sw_given_key(int row);
const char *sw_given_expects(int row);

/* Sets the figure `key` ("net") from its text. `by` is what the user wrote to give it: "--net".
 * Errors: SW_ERR_INVALID: an unknown key (with the nearest one), or a value out of its limits. */
int sw_given_set(struct sw_given_figures *g, const char *key, const char *text, const char *by,
                 struct sw_err *err) SW_MUST_CHECK;
/* Reads a list of KEY=VALUE items, separated by commas or line breaks, that the user gave as `by`
 * ("--what-if"); figures that it does not name stay as they are. Errors: SW_ERR_INVALID, with line
 * and column of the item; *g is unchanged. */
int sw_given_parse(struct sw_given_figures *g, const char *list, const char *by,
                   struct sw_err *err) SW_MUST_CHECK;

/* What a machine has that figures can describe. */
struct sw_given_scope {
    bool network;    /* a number of hosts is given */
    bool gpus;       /* devices with memory of their own */
    bool cores_only; /* the user asks for workers on cores */
};
/* Refuses figures that would change nothing. Errors: SW_ERR_INVALID: names the first one, where it
 * was given, and what would make it apply. */
int sw_given_check(const struct sw_given_figures *g, const struct sw_given_scope *scope,
                   struct sw_err *err) SW_MUST_CHECK;

/* Number of hosts and of GPUs of each; 0: not given. Errors: SW_ERR_INVALID: they contradict each
 * other, or give more than SW_MODEL_DEVICES GPUs. */
int sw_given_counts(const struct sw_given_figures *g, int *hosts, int *gpus_per_host,
                    struct sw_err *err) SW_MUST_CHECK;
