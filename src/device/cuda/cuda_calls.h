/* Streams, events, graphs and copies of the cuda device: the functions of its table (device.c),
 * with the contracts of struct sw_device_ops. */
#pragma once

#include "device/cuda/cuda_private.h"

/* stream.c */
int sw_cuda_stream_new(struct sw_device *dev, int threads, bool urgent, struct sw_stream **out,
                       struct sw_err *err);
void sw_cuda_stream_free(struct sw_stream *s);
int sw_cuda_stream_wait(struct sw_stream *s, struct sw_err *err);
int sw_cuda_call(struct sw_stream *s, void (*fn)(void *user), void *user, struct sw_err *err);

/* event.c */
int sw_cuda_event_new(struct sw_device *dev, struct sw_event **out, struct sw_err *err);
void sw_cuda_event_free(struct sw_event *e);
int sw_cuda_event_record(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
int sw_cuda_event_wait(struct sw_stream *s, struct sw_event *e, struct sw_err *err);
int sw_cuda_event_host_wait(struct sw_event *e, struct sw_err *err);

/* graph.c */
int sw_cuda_capture_begin(struct sw_stream *s, struct sw_err *err);
int sw_cuda_capture_end(struct sw_stream *s, struct sw_graph **out, struct sw_err *err);
int sw_cuda_graph_launch(struct sw_stream *s, struct sw_graph *g, struct sw_err *err);
void sw_cuda_graph_free(struct sw_graph *g);

/* copy.c */
int sw_cuda_copy(struct sw_stream *s, void *dst, const void *src, size_t bytes, struct sw_err *err);
int sw_cuda_copy_peer(struct sw_stream *s, struct sw_device *dst_dev, void *dst,
                      struct sw_device *src_dev, const void *src, size_t bytes, struct sw_err *err);
bool sw_cuda_reaches(struct sw_device *dev, struct sw_device *peer);
int sw_cuda_reach(struct sw_device *dev, struct sw_device *peer, struct sw_err *err);
int sw_cuda_copy_2d(struct sw_stream *s, const struct sw_copy_2d *c, struct sw_err *err);
int sw_cuda_fill_zero(struct sw_stream *s, void *dst, size_t bytes, struct sw_err *err);
