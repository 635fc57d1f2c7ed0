/* rope.h - how fast the pairs of a head turn with the position.  Pure. */
#ifndef BERTH_INFERENCE_ROPE_H
#define BERTH_INFERENCE_ROPE_H

#include "model/directory.h"

/* config->rotary / 2 numbers, radians per position; free them. */
float *rope_frequencies(const struct model_config *config);

#endif
