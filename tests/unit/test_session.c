/* SPDX-License-Identifier: MIT */
/*
 * pg/session without a server: connection strings, secrets in errors, servers that do not answer.
 * What needs a server is tested by the integration tests.
 */
#include "pg/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/timeutil.h"
#include "pg/session_impl.h"

static enum ph_rc try_open(const char *conninfo, struct ph_err *err)
{
    struct session *s = NULL;
    enum ph_rc rc = session_open(
        &(struct session_opts){.conninfo = conninfo, .connect_timeout_us = 300000}, &s, err);

    session_close(s);
    return rc;
}

static void bad_connection_strings(void **state)
{
    static const char *const cases[] = {
        "SeCrEt",
        "host=x pasword=SeCrEt",
        "password='SeCrEt",
        "postgres://u:SeCr@Et@/db",
        "postgres://u:SeCrEt@h:port/db/x?nonsense=1",
        "host=/tmp replication=true password=SeCrEt",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ph_err err;

        assert_int_equal(try_open(cases[i], &err), PH_CONFIG);
        assert_null(strstr(err.text, "SeCr"));
        assert_null(strstr(err.text, "Et@"));
        assert_null(strchr(err.text, '\n'));
        assert_non_null(strstr(err.hint, "host="));
    }
}

static void no_server(void **state)
{
    struct ph_err err;

    (void)state;
    assert_int_equal(try_open("host=/nonexistent password=SeCrEt user=u", &err), PH_IO);
    assert_non_null(strstr(err.text, "/nonexistent"));
    assert_null(strstr(err.text, "SeCrEt"));
    assert_null(strchr(err.text, '\n'));
}

/* A socket on the loopback that listens; *ret_port. */
static int listen_somewhere(unsigned *ret_port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *ret_port = ntohs(addr.sin_port);
    return fd;
}

static void silent_server(void **state)
{
    unsigned port;
    int fd = listen_somewhere(&port);
    AUTO_FREE char *conninfo = xasprintf("host=127.0.0.1 port=%u user=u", port);
    uint64_t start_us = time_mono_us();
    struct ph_err err;

    (void)state;
    assert_int_equal(try_open(conninfo, &err), PH_TIMEOUT);
    assert_non_null(strstr(err.text, "could not connect to the server"));
    assert_true(time_mono_us() - start_us < 5000000);
    (void)close(fd);
}

static void server_that_hangs_up(void **state)
{
    unsigned port;
    int fd = listen_somewhere(&port);
    AUTO_FREE char *conninfo =
        xasprintf("host=127.0.0.1 port=%u user=u sslmode=disable gssencmode=disable", port);
    struct ph_err err;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        int conn = accept(fd, NULL, NULL);

        _exit(conn >= 0 ? 0 : 1);
    }
    assert_int_equal(try_open(conninfo, &err), PH_IO);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(fd);
}

static void texts_become_one_line(void **state)
{
    char buf[16];

    (void)state;
    session_one_line("  a\n\n\tb  ", buf, sizeof buf);
    assert_string_equal(buf, "a b");
    session_one_line("0123456789abcdefghij", buf, sizeof buf);
    assert_string_equal(buf, "0123456789abcde");
    session_one_line("", buf, sizeof buf);
    assert_string_equal(buf, "");
}

static void codes_of_the_server(void **state)
{
    (void)state;
    assert_int_equal(session_rc_of_sqlstate("28P01"), PH_AUTH);
    assert_int_equal(session_rc_of_sqlstate("42501"), PH_AUTH);
    assert_int_equal(session_rc_of_sqlstate("3D000"), PH_CONFIG);
    assert_int_equal(session_rc_of_sqlstate("57P03"), PH_RETRY);
    assert_int_equal(session_rc_of_sqlstate("53300"), PH_RETRY);
    assert_int_equal(session_rc_of_sqlstate("XX000"), PH_IO);
}

static void rows_that_are_not_there(void **state)
{
    struct session_rows rows = {0};

    (void)state;
    session_rows_release(&rows);
    assert_int_equal(session_rows_count(&rows), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_connection_strings),  cmocka_unit_test(no_server),
        cmocka_unit_test(silent_server),           cmocka_unit_test(server_that_hangs_up),
        cmocka_unit_test(texts_become_one_line),   cmocka_unit_test(codes_of_the_server),
        cmocka_unit_test(rows_that_are_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
