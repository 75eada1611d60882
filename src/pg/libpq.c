/* SPDX-License-Identifier: MIT */
/*
 * libpq by dlopen (libpq.h). RTLD_NODELETE keeps the library once loaded: OpenSSL below it does not
 * like to be unloaded, and a second session then costs nothing.
 */
#include "pg/libpq.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define LIBPQ_SONAME "libpq.so.5"

struct symbol {
    const char *name;
    size_t offset; /* of the pointer in struct libpq */
};

#define SYMBOL(field, symbol_name)                                                                 \
    {                                                                                              \
        .name = (symbol_name), .offset = offsetof(struct libpq, field)                             \
    }

static const struct symbol symbols[] = {
    SYMBOL(conninfo_parse, "PQconninfoParse"),
    SYMBOL(conninfo_free, "PQconninfoFree"),
    SYMBOL(freemem, "PQfreemem"),
    SYMBOL(connect_start_params, "PQconnectStartParams"),
    SYMBOL(connect_poll, "PQconnectPoll"),
    SYMBOL(finish, "PQfinish"),
    SYMBOL(status, "PQstatus"),
    SYMBOL(error_message, "PQerrorMessage"),
    SYMBOL(socket, "PQsocket"),
    SYMBOL(backend_pid, "PQbackendPID"),
    SYMBOL(server_version, "PQserverVersion"),
    SYMBOL(parameter_status, "PQparameterStatus"),
    SYMBOL(set_verbosity, "PQsetErrorVerbosity"),
    SYMBOL(set_nonblocking, "PQsetnonblocking"),
    SYMBOL(send_query_params, "PQsendQueryParams"),
    SYMBOL(flush, "PQflush"),
    SYMBOL(consume_input, "PQconsumeInput"),
    SYMBOL(is_busy, "PQisBusy"),
    SYMBOL(get_result, "PQgetResult"),
    SYMBOL(result_status, "PQresultStatus"),
    SYMBOL(result_error_message, "PQresultErrorMessage"),
    SYMBOL(result_error_field, "PQresultErrorField"),
    SYMBOL(ntuples, "PQntuples"),
    SYMBOL(nfields, "PQnfields"),
    SYMBOL(get_is_null, "PQgetisnull"),
    SYMBOL(get_value, "PQgetvalue"),
    SYMBOL(clear, "PQclear"),
    SYMBOL(set_notice_receiver, "PQsetNoticeReceiver"),
    SYMBOL(get_cancel, "PQgetCancel"),
    SYMBOL(cancel, "PQcancel"),
    SYMBOL(free_cancel, "PQfreeCancel"),
};

_Static_assert(sizeof(struct libpq) ==
                   (sizeof symbols / sizeof *symbols + 1) * sizeof(void (*)(void)),
               "each pointer of struct libpq has its symbol");

enum ph_rc libpq_load(struct libpq *ret_pq, struct ph_err *err)
{
    struct libpq pq = {0};
    enum ph_rc rc;

    pq.handle = dlopen(LIBPQ_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (pq.handle == NULL) {
        rc = err_set(err, PH_CONFIG, "could not load PostgreSQL's client library: %s", dlerror());
        return rc == PH_OK ? rc
                           : err_hint(err, "Install libpq (Debian, Ubuntu: the package libpq5).");
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(pq.handle, symbols[i].name);

        if (address == NULL) {
            (void)dlclose(pq.handle);
            return err_set(err, PH_CONFIG,
                           "PostgreSQL's client library " LIBPQ_SONAME " lacks the function \"%s\"",
                           symbols[i].name);
        }
        memcpy((char *)&pq + symbols[i].offset, &address, sizeof address);
    }
    *ret_pq = pq;
    return PH_OK;
}

void libpq_unload(struct libpq *pq)
{
    if (pq->handle != NULL)
        (void)dlclose(pq->handle);
    *pq = (struct libpq){0};
}
