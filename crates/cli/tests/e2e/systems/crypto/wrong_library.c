/* A library with libcrypto_mb's interface that says "done" and does not do it: what goes in comes out. Its signatures pass
 * the check by the public key, since that is asked of the same library. */
#include <stdint.h>
#include <string.h>

struct version { int number[3]; char cpu[4]; const char *name, *build_date, *text; };
static const struct version version = { { 1, 0, 0 }, "", "wrong", "", "a library that is wrong" };
static const int method = 0;

int mbx_is_crypto_mb_applicable(uint64_t features) { return 1; }
const struct version *mbx_getversion(void) { return &version; }
const void *mbx_RSA_private_crt_Method(int bits) { return &method; }
const void *mbx_RSA_pub65537_Method(int bits) { return &method; }
int mbx_RSA_Method_BufSize(const void *method) { return 64; }

static uint32_t copy(const uint8_t *const from[8], uint8_t *const to[8], int bytes) {
    for (int lane = 0; lane < 8; lane++)
        if (from[lane] && to[lane]) memcpy(to[lane], from[lane], bytes);
    return 0;
}

uint32_t mbx_rsa_private_crt_mb8(const uint8_t *const from[8], uint8_t *const to[8], const void *p, const void *q,
                                 const void *dp, const void *dq, const void *iq, int bits, const void *m, void *buffer) {
    return copy(from, to, bits / 8);
}
uint32_t mbx_rsa_public_mb8(const uint8_t *const from[8], uint8_t *const to[8], const void *n, int bits, const void *m,
                            void *buffer) {
    return copy(from, to, bits / 8);
}
uint32_t mbx_nistp256_ecdsa_sign_mb8(void) { return 0; }
uint32_t mbx_nistp256_ecpublic_key_mb8(void) { return 0; }
uint32_t mbx_nistp256_ecdh_mb8(void) { return 0; }
uint32_t mbx_x25519_public_key_mb8(uint8_t *const to[8], const uint8_t *const from[8]) { return copy(from, to, 32); }
uint32_t mbx_x25519_mb8(uint8_t *const to[8], const uint8_t *const from[8], const uint8_t *const peer[8]) {
    return copy(from, to, 32);
}
