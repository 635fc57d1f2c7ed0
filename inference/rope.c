/* rope.c - frequencies of the rotary positions, and how they are stretched. */
#include "inference/rope.h"

#include <math.h>

#include "common/mem.h"

#include "common/banned.h"

#define PI 3.14159265358979323846

/* Llama 3.1: long wavelengths are stretched by the factor, short ones kept,
 * those between blended. */
static double
llama3_scaled(const struct model_config *config, double frequency)
{
    double wavelength = 2 * PI / frequency;
    double original = config->rope_original_context;
    double low = (double)config->rope_low_freq_factor;
    double high = (double)config->rope_high_freq_factor;
    double factor = (double)config->rope_factor;
    double blend;

    if (wavelength < original / high)
        return frequency;
    if (wavelength > original / low)
        return frequency / factor;
    blend = (original / wavelength - low) / (high - low);
    return (1 - blend) * frequency / factor + blend * frequency;
}

/* The pair that turns @turns times in the original context. */
static double
yarn_pair(const struct model_config *config, double turns)
{
    return (double)config->rotary *
           log((double)config->rope_original_context / (turns * 2 * PI)) /
           (2 * log((double)config->rope_theta));
}

/* YaRN: fast pairs are kept, slow ones stretched by the factor, those between
 * blended by their place. */
static double
yarn_scaled(const struct model_config *config, size_t pair, double frequency)
{
    double low = yarn_pair(config, (double)config->rope_beta_fast);
    double high = yarn_pair(config, (double)config->rope_beta_slow);
    double stretched;

    if (config->rope_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)config->rotary - 1);
    if (high - low < 0.001)
        high = low + 0.001;
    stretched = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return frequency * (1 - stretched) +
           frequency / (double)config->rope_factor * stretched;
}

float *
rope_frequencies(const struct model_config *config)
{
    size_t half = config->rotary / 2;
    float *frequencies = mem_array(half, sizeof(float));

    for (size_t i = 0; i < half; i++) {
        double frequency = pow((double)config->rope_theta,
                               -2.0 * (double)i / (double)config->rotary);

        switch (config->rope_scaling) {
        case ROPE_PLAIN:
            break;
        case ROPE_LINEAR:
            frequency /= (double)config->rope_factor;
            break;
        case ROPE_LLAMA3:
            frequency = llama3_scaled(config, frequency);
            break;
        case ROPE_YARN:
            frequency = yarn_scaled(config, i, frequency);
            break;
        }
        frequencies[i] = (float)frequency;
    }
    return frequencies;
}
