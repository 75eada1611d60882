/* SPDX-License-Identifier: MIT */
/*
 * Functions that pghush does not use, made compile errors.
 *
 * The build includes this file before every source (meson.build, -include). The system headers that
 * declare the functions come first, so that their prototypes stay intact; later uses expand to an
 * undeclared name that says what to use instead. A wrapper that must call one says `#undef name`.
 */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#undef strcpy
#undef strcat
#undef sprintf
#undef strncpy
#undef strtok
#undef sscanf
#define strcpy(...)    banned_use_str_or_snprintf()
#define strcat(...)    banned_use_buf_or_snprintf()
#define sprintf(...)   banned_use_snprintf()
#define strncpy(...)   banned_use_str_or_snprintf()
#define strtok(...)    banned_use_strtok_r()
#define sscanf(...)    banned_use_num_parse()
#define atoi(...)      banned_use_num_parse()
#define atol(...)      banned_use_num_parse()
#define strtol(...)    banned_use_num_parse()
#define gmtime(...)    banned_use_gmtime_r()
#define localtime(...) banned_use_localtime_r()
#define system(...)    banned_use_posix_spawn()
#define read(...)      banned_use_io_fdio()
#define write(...)     banned_use_io_fdio()
#define pread(...)     banned_use_io_fdio()
#define pwrite(...)    banned_use_io_fdio()

#endif
