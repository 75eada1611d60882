/* SPDX-License-Identifier: MIT */
/*
 * Finding PostgreSQL's programs: the server of one major version, and clients that work with it.
 *
 * Looked at, in this order: the folder the person names, what pg_config says, the usual folders of
 * packages, PATH. A server must be of exactly the major asked for (it says so itself); a client of
 * that or a later one.
 */
#ifndef ENGINE_DRILL_PG_PROGRAMS_H
#define ENGINE_DRILL_PG_PROGRAMS_H

#include "base/err.h"

/*
 * The folder with `postgres` of this major.
 *
 * given       NULL, or the only folder that is looked at
 * ret_bindir  owned by the caller
 * Errors      NOT_FOUND with the places that were looked at; CONFIG: the given folder holds another major
 */
MUST_CHECK enum ph_rc pg_programs_server(unsigned major, const char *given, char **ret_bindir,
                                         struct ph_err *err);

/*
 * A client program that works with a server of this major: in bindir, else the newest found.
 *
 * ret_path    owned by the caller; NULL where none is found
 */
void pg_programs_client(const char *name, unsigned major, const char *bindir, char **ret_path);

#endif
