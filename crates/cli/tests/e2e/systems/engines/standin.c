/* An engine and a provider of OpenSSL that load, say that they are available, and leave all work to OpenSSL: what an
   accelerator is without its device. The tests compile it and have HAProxy and nginx load it. */
#include <openssl/core_dispatch.h>
#include <openssl/engine.h>
#include <openssl/provider.h>

static int bind(ENGINE *engine, const char *id)
{
    (void)id;
    return ENGINE_set_id(engine, "standin") && ENGINE_set_name(engine, "an engine that does nothing");
}

IMPLEMENT_DYNAMIC_CHECK_FN()
IMPLEMENT_DYNAMIC_BIND_FN(bind)

static const OSSL_DISPATCH nothing[] = { { 0, NULL } };

int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
                       void **context)
{
    (void)in;
    *out = nothing;
    *context = (void *)handle;
    return 1;
}
