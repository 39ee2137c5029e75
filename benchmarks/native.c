/* The published step, vanilla, fused by hand: what a native kernel for this one unit would buy.
   z holds four rows of n floats; `kept` is room for 40 rows. Two passes: the outputs, then slopes, noise and update. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BATCH 20
#define BLOCK 512

static inline uint32_t rotated(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

/* Normals for m positions from `first` on, by the generator of haarflow.dynamics.noise. */
static void normals(uint32_t key, uint32_t first, int m, float *out)
{
    static const int ROTATIONS[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t schedule[3] = {key, 7, key ^ 7 ^ 0x1BD11BDAu};
#pragma omp simd
    for (int i = 0; i < m; i++) {
        uint32_t high = first + (uint32_t)i / 4 + schedule[0], low = (uint32_t)i % 4 + schedule[1];
#pragma GCC unroll 13
        for (int done = 1; done <= 13; done++) {
            high += low;
            low = high ^ rotated(low, ROTATIONS[(done - 1) % 8]);
            if (done % 4 == 0) {
                high += schedule[(done / 4) % 3];
                low += schedule[(done / 4 + 1) % 3] + done / 4;
            }
        }
        float radius = sqrtf(-2.f * logf(((float)(int32_t)(high >> 1) + 0.5f) * 0x1p-31f));
        float angle = (float)(int32_t)(low >> 1) * (float)(3.14159265358979323846 / 4294967296.0), s = angle * angle;
        float cosine = 1.f + s * (-1.f / 2 + s * (1.f / 24 + s * (-1.f / 720 + s * (1.f / 40320
                       + s * (-1.f / 3628800 + s * (1.f / 479001600))))));
        out[i] = (low & 1) ? -radius * cosine : radius * cosine;
    }
}

void step(float *z, int n, const float *xs, const float *ys, float dt, float decay, float noise, uint32_t key, float *kept)
{
    float total[2][BATCH] = {{0}}, pull[2][BATCH];
#pragma omp parallel
    {
        float mine[2][BATCH] = {{0}};
#pragma omp for schedule(static)
        for (int at = 0; at < n; at += BLOCK) {
            int m = n - at < BLOCK ? n - at : BLOCK;
            for (int c = 0; c < 2; c++)
                for (int b = 0; b < BATCH; b++) {
                    const float *first = z + (size_t)(2 * c) * n + at, *second = first + n;
                    float *t = kept + (size_t)(c * BATCH + b) * n + at, sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int i = 0; i < m; i++) {
                        t[i] = tanhf(0.5f * (first[i] * xs[2 * b] + second[i] * xs[2 * b + 1]));
                        sum += t[i];
                    }
                    mine[c][b] += sum;
                }
        }
#pragma omp critical
        for (int c = 0; c < 2; c++)
            for (int b = 0; b < BATCH; b++)
                total[c][b] += mine[c][b];
    }
    for (int c = 0; c < 2; c++)
        for (int b = 0; b < BATCH; b++)
            pull[c][b] = 0.25f * (2.f / BATCH) * (0.5f + 0.5f * total[c][b] / n - ys[2 * b + c]);
#pragma omp parallel
    {
        float slope[4][BLOCK], drawn[4 * BLOCK];
#pragma omp for schedule(static)
        for (int at = 0; at < n; at += BLOCK) {
            int m = n - at < BLOCK ? n - at : BLOCK;
            memset(slope, 0, sizeof slope);
            for (int c = 0; c < 2; c++)
                for (int b = 0; b < BATCH; b++) {
                    const float *t = kept + (size_t)(c * BATCH + b) * n + at;
                    float first = pull[c][b] * xs[2 * b], second = pull[c][b] * xs[2 * b + 1];
#pragma omp simd
                    for (int i = 0; i < m; i++) {
                        float steep = 1 - t[i] * t[i];
                        slope[2 * c][i] += first * steep;
                        slope[2 * c + 1][i] += second * steep;
                    }
                }
            normals(key, at, 4 * m, drawn);
            for (int q = 0; q < 4; q++) {
                float *row = z + (size_t)q * n + at;
#pragma omp simd
                for (int i = 0; i < m; i++)
                    row[i] += noise * drawn[q * m + i] - dt * (slope[q][i] + decay * row[i]);
            }
        }
    }
}
