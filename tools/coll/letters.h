/* SPDX-License-Identifier: BSD-3-Clause */
/* The short options of nccl-tests, for hands that know them. */
#ifndef TOOLS_COLL_LETTERS_H
#define TOOLS_COLL_LETTERS_H

struct report;

/* The letters, for getopt_long(): all of those of nccl-tests, whether or not they mean something here. */
#define COLL_LETTERS ":b:e:f:n:w:c:o:d:r:g:t:i:m:N:p:z:y:T:G:C:a:R:J:"

/* The long option that a letter stands for, unless it is an option of its own: -b, -e, -c, -g and -t. Null: it stands for none, and
 * `report` says what to use instead. */
const char *coll_letter_option(int letter, struct report *report);

#endif
